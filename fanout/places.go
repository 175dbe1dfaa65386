package fanout

import "sync"

// places bounds how many objects one task of a pass changes. An object that needed nothing gives its place to another.
type places struct {
	mu    sync.Mutex
	freed *sync.Cond
	left  int
	held  int
	short bool // somebody got none
}

func newPlaces(n int) *places {
	p := &places{left: n}
	p.freed = sync.NewCond(&p.mu)
	return p
}

// take waits for a place as long as one may be given back, and reports whether it got one.
func (p *places) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.left == 0 && p.held > 0 {
		p.freed.Wait()
	}
	if p.left == 0 {
		p.short = true
		return false
	}
	p.left--
	p.held++
	return true
}

// end says whether a place that was taken has been used.
func (p *places) end(used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held--; !used {
		p.left++
	}
	p.freed.Broadcast()
}

func (p *places) wereShort() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.short
}
