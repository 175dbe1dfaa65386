package fanout

import "sync"

// places bounds the objects changed by a task of a pass. An object without a change gives its place to another object.
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

// take waits for a place as long as a place may be given back, and reports success.
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

// end says whether a taken place has been used.
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
