package fanout

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slow is the time after which a request under way no longer holds a place. The API server itself is faster, so a slow
// request waits for a webhook.
const slow = time.Second

// limit bounds the requests under way: perGroup for each group, and two more in all, not counting slow requests. The
// last place is for a group without requests under way. So neither a single group nor several groups with slow requests
// keep another group waiting for long. Among the admissible requests, the longest waiting request comes first.
type limit struct {
	perGroup int

	mu      sync.Mutex
	held    int            // places of requests that are not slow
	groups  map[string]int // requests under way, slow or not
	waiting []*waiter
}

type waiter struct {
	group string
	call  *call         // set before ready is closed
	ready chan struct{} // closed on admission
}

// call is a request under way.
type call struct {
	limit *limit
	group string
	timer *time.Timer
	slow  bool // its place belongs to another request
}

func newLimit(perGroup int) *limit {
	return &limit{perGroup: perGroup, groups: map[string]int{}}
}

// take waits for a place and returns a function to give the place back, or the cause of ctx if ctx ends first.
func (l *limit) take(ctx context.Context, group string) (done func(), err error) {
	w := &waiter{group: group, ready: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.admit()
	l.mu.Unlock()
	select {
	case <-w.ready:
		return w.call.end, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, w)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // admitted meanwhile
		w.call.end()
	}
	return nil, context.Cause(ctx)
}

// admit admits waiting requests in order, as far as allowed. The caller holds mu.
func (l *limit) admit() {
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool {
		under := l.groups[w.group]
		if left := l.perGroup + 2 - l.held; under >= l.perGroup || left == 0 || left == 1 && under > 0 {
			return false
		}
		l.held++
		l.groups[w.group] = under + 1
		w.call = &call{limit: l, group: w.group}
		w.call.timer = time.AfterFunc(slow, w.call.lend)
		close(w.ready)
		return true
	})
}

// lend gives the place of a slow request to others.
func (c *call) lend() {
	l := c.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.timer != nil {
		c.slow = true
		l.held--
		l.admit()
	}
}

func (c *call) end() {
	l := c.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	c.timer.Stop()
	c.timer = nil
	if !c.slow {
		l.held--
	}
	if l.groups[c.group]--; l.groups[c.group] == 0 {
		delete(l.groups, c.group)
	}
	l.admit()
}
