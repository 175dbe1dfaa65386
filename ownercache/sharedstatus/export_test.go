package sharedstatus

// Remembered returns the number of objects about which the Statuses have records.
func (s *Statuses[O, L]) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}
