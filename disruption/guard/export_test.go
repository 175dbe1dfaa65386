package guard

// Remembered returns how many budgets are remembered.
func (g *Guard[O]) Remembered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.budgets)
}
