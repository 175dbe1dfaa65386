package sharedstatus

// Remembered returns how many objects are remembered.
func (s *Statuses[O, L]) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}
