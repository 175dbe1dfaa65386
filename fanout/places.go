package fanout

import "sync"

// places limits the number of objects that a task changes in a pass. An object that needed no change leaves its place
// to another object.
type places struct {
	mu    sync.Mutex
	freed *sync.Cond
	left  int
	held  int
	short bool // a call of take got no place
}

func newPlaces(n int) *places {
	p := &places{left: n}
	p.freed = sync.NewCond(&p.mu)
	return p
}

// take waits while a taken place may still be given back, and reports whether the caller got a place.
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

// end gives back a place. used says whether the object in this place was changed: only a changed object counts towards
// the limit.
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
