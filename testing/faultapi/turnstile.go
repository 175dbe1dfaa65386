package faultapi

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Turnstile is a Gate at which every call waits until the test releases it. The zero value is ready. All calls of one
// process stand at one Turnstile, and Break is that process's death.
type Turnstile struct {
	mu      sync.Mutex
	waiting []*Waiting
	broken  error
}

// Waiting is a call that stands at a Turnstile.
type Waiting struct {
	Call Call

	turnstile *Turnstile
	fate      chan Fate
}

// Pass waits until the call is released, also when its context ends: what becomes of a call is the test's choice alone.
func (t *Turnstile) Pass(_ context.Context, call Call) Fate {
	t.mu.Lock()
	if t.broken != nil {
		t.mu.Unlock()
		return Fate{Before: t.broken}
	}
	w := &Waiting{Call: call, turnstile: t, fate: make(chan Fate, 1)}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	return <-w.fate
}

// Waiting returns the calls that wait, in an order that does not depend on which goroutine came first.
func (t *Turnstile) Waiting() []*Waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.waiting, func(a, b *Waiting) int {
		if order := strings.Compare(a.Call.Task, b.Call.Task); order != 0 {
			return order
		}
		return strings.Compare(a.Call.String(), b.Call.String())
	})
	return slices.Clone(t.waiting)
}

// Release lets the call go to its fate. Further calls have no effect.
func (w *Waiting) Release(fate Fate) {
	w.turnstile.mu.Lock()
	defer w.turnstile.mu.Unlock()
	if i := slices.Index(w.turnstile.waiting, w); i >= 0 {
		w.turnstile.waiting = slices.Delete(w.turnstile.waiting, i, i+1)
		w.fate <- fate
	}
}

// Break answers all calls that wait, and all that come, with err, and makes none of them.
func (t *Turnstile) Break(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = err
	for _, w := range t.waiting {
		w.fate <- Fate{Before: err}
	}
	t.waiting = nil
}
