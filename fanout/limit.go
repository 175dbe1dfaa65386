package fanout

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slow is the time after which a request no longer counts towards the limit. An API server without webhooks responds
// faster, so a slow request waits for a webhook.
const slow = time.Second

// limit bounds the number of concurrent requests: perGroup for each group, and perGroup plus two in all; slow
// requests do not count. The last free request is reserved for a group without requests. So neither a single group
// nor several groups with slow requests can make another group wait for long. Among the requests that may start, the
// longest waiting request starts first.
type limit struct {
	perGroup int

	mu      sync.Mutex
	held    int            // number of requests that are not slow
	groups  map[string]int // number of requests by group, slow or not
	waiting []*waiter
}

type waiter struct {
	group string
	call  *call         // set before ready is closed
	ready chan struct{} // closed when the request is admitted
}

// call is a request that has been admitted and has not ended.
type call struct {
	limit *limit
	group string
	timer *time.Timer
	slow  bool // a slow request no longer counts towards the limit
}

func newLimit(perGroup int) *limit {
	return &limit{perGroup: perGroup, groups: map[string]int{}}
}

// take waits until a request may start, and returns a function to call when the request has ended; if ctx ends first,
// take returns the cause of ctx.
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
	if i < 0 { // the request was admitted just as ctx ended
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

// lend excludes a slow request from the limit, so that another request may start.
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
