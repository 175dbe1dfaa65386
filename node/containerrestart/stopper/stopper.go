package stopper

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/internal/background"
)

// Options are options of a Stopper. The zero value is usable.
type Options struct {
	// Done is called after each stop with the stop's key, such as the Pod of the container, from any goroutine. Nil
	// if not needed.
	Done func(key string)
	// HookFailed is called if a hook has failed, for example to record an event. Nil if not needed.
	HookFailed func(ctx context.Context, key string, order Order, err error)
	// Clock is the clock; nil means the real clock.
	Clock clock.Clock
}

// Stopper runs stops, each in its own goroutine. A Stopper is safe for concurrent use. Make a Stopper with New.
type Stopper struct {
	runtime Runtime
	options Options
	queue   *background.Queue

	mu   sync.Mutex
	runs map[string][]*run // requested stops by key
}

// run is a requested stop.
type run struct {
	key   string
	order Order
	task  *background.Task
	err   error // error of a failed stop
}

// New returns a Stopper. Stops begin only after Start was called.
func New(runtime Runtime, options Options) *Stopper {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Stopper{runtime: runtime, options: options, queue: background.NewQueue(), runs: map[string][]*run{}}
}

// Start runs requested stops until the context ends, and returns after the last stop has ended.
func (s *Stopper) Start(ctx context.Context) error { return s.queue.Start(ctx) }

// stop carries out a stop, and keeps the error if the stop fails. stop forgets a successful stop, because the
// instance does not run any more. stop also forgets a stop that ended with the context, because another process may
// stop the container later.
func (s *Stopper) stop(ctx context.Context, r *run) {
	hook, err := Stop(ctx, s.runtime, s.options.Clock, r.order)
	if hook != nil && ctx.Err() == nil && s.options.HookFailed != nil {
		s.options.HookFailed(ctx, r.key, r.order, hook)
	}
	s.mu.Lock()
	if r.err = err; err == nil || ctx.Err() != nil {
		s.drop(r)
	}
	s.mu.Unlock()
	if s.options.Done != nil {
		s.options.Done(r.key)
	}
}

// drop removes a stop from runs. The caller must hold the lock.
func (s *Stopper) drop(r *run) {
	left := slices.DeleteFunc(s.runs[r.key], func(known *run) bool { return known == r })
	if len(left) == 0 {
		delete(s.runs, r.key)
		return
	}
	s.runs[r.key] = left
}

// Ask requests a stop under a key, and reports whether the request is new. If a stop of the same key and instance is in
// progress, Ask does nothing; a failed stop is begun again. Ask does not wait.
func (s *Stopper) Ask(key string, order Order) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.runs[key], func(r *run) bool { return sameID(r.order.ID, order.ID) }); i >= 0 {
		if s.runs[key][i].err == nil {
			return false
		}
		s.drop(s.runs[key][i])
	}
	r := &run{key: key, order: order}
	r.task = s.queue.Add(func(ctx context.Context) { s.stop(ctx, r) })
	s.runs[key] = append(s.runs[key], r)
	return true
}

// Stops returns the stops of a key that are in progress or have failed, for containerrestart.Observed.
func (s *Stopper) Stops(key string) (out []containerrestart.Stop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs[key] {
		out = append(out, containerrestart.Stop{ID: r.order.ID, Err: r.err})
	}
	slices.SortFunc(out, func(a, b containerrestart.Stop) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Forget cancels the stops of a key that are in progress, and forgets failed stops. If the runtime is already stopping
// a container, the runtime continues to the end of its own grace period.
func (s *Stopper) Forget(key string) { s.Keep(key) }

// Keep does what Forget does, for all stops of a key except the stops of the given instances.
func (s *Stopper) Keep(key string, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Clone(s.runs[key]) {
		if slices.ContainsFunc(ids, func(id string) bool { return sameID(id, r.order.ID) }) {
			continue
		}
		r.task.Stop()
		s.drop(r)
	}
}

// sameID compares IDs, whether or not they begin with the name of the runtime.
func sameID(a, b string) bool {
	_, a = containerrestart.SplitID(a)
	_, b = containerrestart.SplitID(b)
	return a == b
}
