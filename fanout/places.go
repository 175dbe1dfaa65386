package fanout

import "sync"

// places limits the number of objects that a task changes in a pass. If an object needed no change, another object
// may be changed in its place.
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

// take takes a place, and reports whether a place was free. If all places are taken, take waits while a call is in
// progress that may not change its object and so may free its place.
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

// end is called when the work on the object of a place has ended. used says whether the object was changed: only then
// does the place stay taken.
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
