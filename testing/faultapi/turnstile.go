package faultapi

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Turnstile is a Gate in which every call waits until the test releases the call. The zero value is ready. All calls
// of a process wait at the same Turnstile; call Break when the process dies.
type Turnstile struct {
	mu      sync.Mutex
	waiting []*Waiting
	broken  error
}

// Waiting is a call that a Turnstile holds.
type Waiting struct {
	Call Call

	turnstile *Turnstile
	fate      chan Fate
}

// Pass waits for the release of the call, even past the end of its context: only the test decides the call's Fate.
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

// Waiting returns the waiting calls, in an order independent of goroutines.
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

// Release lets the call continue with the given fate. Further calls of Release have no effect.
func (w *Waiting) Release(fate Fate) {
	w.turnstile.mu.Lock()
	defer w.turnstile.mu.Unlock()
	if i := slices.Index(w.turnstile.waiting, w); i >= 0 {
		w.turnstile.waiting = slices.Delete(w.turnstile.waiting, i, i+1)
		w.fate <- fate
	}
}

// Break makes all waiting and all later calls return err without being carried out.
func (t *Turnstile) Break(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = err
	for _, w := range t.waiting {
		w.fate <- Fate{Before: err}
	}
	t.waiting = nil
}
