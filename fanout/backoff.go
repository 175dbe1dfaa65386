package fanout

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

// Task is something that is tried, and for how long it is left alone after it was refused. Name is required: it tells tasks of
// one object apart, and stands in errors and logs. "delete Pods" is one.
type Task struct {
	Name string
	// First is how long it is left alone after the first refusal. Each further one doubles that, up to Last, unless the rest before it
	// ended more than Last ago. Zero stands for
	// DefaultFirst and DefaultLast; a Last that is less than First stands for First.
	First, Last time.Duration
	// Most is how many objects one pass changes, or creates, at most; nil stands for PerPass, which is also the most that it can be.
	Most *int

	// failing says that it is about requests that have failed, and were not refused.
	failing bool
}

// DefaultFirst and DefaultLast are for tasks that say nothing else. Nobody tells a controller when a quota or a policy has
// changed.
const (
	DefaultFirst = 2 * time.Second
	DefaultLast  = time.Minute
)

func (t Task) bounds() (first, last time.Duration) {
	first, last = t.First, t.Last
	if first <= 0 {
		first = DefaultFirst
	}
	if last <= 0 {
		last = DefaultLast
	}
	return first, max(first, last)
}

// most returns how many objects a pass changes at most.
func (t Task) most() int {
	if t.Most == nil {
		return PerPass
	}
	return min(max(*t.Most, 0), PerPass)
}

// Attempt is one attempt at a task.
type Attempt struct {
	// Object is what it is done to, or for: a Pod, or the owner of a Pod that is to be created.
	Object types.UID
	Task   Task
	// Target is what the attempt depends on: the name of a revision, or the generation of the owner. With another target
	// nothing is known yet, and the attempt is made at once.
	Target string
}

// Backoff remembers which attempts were refused, so that the same is not tried in a loop: each attempt costs requests and
// may change a Pod's readiness twice, and those events would lead to the next attempt for ever. It is memory of one process;
// after a restart each attempt is made once more. It is safe for concurrent use. The zero value is ready.
//
// What is remembered is that an attempt must not be made now. Go on with what an earlier one has begun: a Pod whose gate was
// closed before its update was refused comes back into service with what inplaceupdate.Updater.Next says.
type Backoff struct {
	mu    sync.Mutex
	known map[types.UID]map[string]refusal // by object and task
	size  int                              // how many refusals are known
	next  int                              // how many may be known before old ones are looked for
}

type refusal struct {
	target string
	until  time.Time
	wait   time.Duration
	last   time.Duration
	err    error

	failing bool // as of the task
}

// Refused remembers why an attempt was refused, and returns for how long it rests. An object has one entry for each task, the
// last. A nil error is no refusal: nothing is remembered, and the wait is zero.
func (b *Backoff) Refused(a Attempt, err error, now time.Time) time.Duration {
	if err == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	wait, last := a.Task.bounds()
	if known, ok := b.known[a.Object][a.Task.Name]; ok && known.target == a.Target && now.Sub(known.until) <= last {
		wait = min(2*known.wait, last)
	}
	if _, ok := b.known[a.Object][a.Task.Name]; !ok {
		b.sweep(now)
		b.size++
	}
	if b.known[a.Object] == nil {
		b.known[a.Object] = map[string]refusal{}
	}
	b.known[a.Object][a.Task.Name] = refusal{target: a.Target, until: now.Add(wait), wait: wait, last: last, err: err, failing: a.Task.failing}
	return wait
}

// sweep makes room for another refusal. Where many are known, it drops those after which nothing was tried for long: what they are about is
// gone, and nobody has said so.
func (b *Backoff) sweep(now time.Time) {
	if b.known == nil {
		b.known = map[types.UID]map[string]refusal{}
	}
	if b.size < max(b.next, 1000) {
		return
	}
	for object, tasks := range b.known {
		for name, r := range tasks {
			if now.Sub(r.until) > r.last {
				delete(tasks, name)
				b.size--
			}
		}
		if len(tasks) == 0 {
			delete(b.known, object)
		}
	}
	b.next = 2 * b.size
}

// Resting returns why an attempt must not be made now, as a final error, and for how long. The error is nil if it may be made: it
// was not refused, or that is long enough ago.
func (b *Backoff) Resting(a Attempt, now time.Time) (wait time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.known[a.Object][a.Task.Name]
	if !ok || known.target != a.Target || !now.Before(known.until) {
		return 0, nil
	}
	return known.until.Sub(now), reason.Final(remembered{known.err})
}

// remembered is the error of an attempt that was not made.
type remembered struct{ error }

func (r remembered) Unwrap() error { return r.error }

// WasRefused reports whether the last attempt at one of an object's tasks was refused, however long ago that is and whatever its
// target.
func (b *Backoff) WasRefused(object types.UID, tasks ...Task) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, task := range tasks {
		if _, ok := b.known[object][task.Name]; ok {
			return true
		}
	}
	return false
}

// whichFailed is what Each notes where a request of the task has failed without being refused.
func (t Task) whichFailed() Task {
	return Task{Name: t.Name + ", which failed", First: time.Second, Last: 30 * time.Second, failing: true}
}

// lasting is how long an object rests that has failed several times in a row.
const lasting = 8 * time.Second

// Rest returns for how much longer the longest of an object's tasks rests, whatever its target. Requests of Each that have failed several
// times in a row count too: after an answer or two that were lost an object need not lose its turn.
func (b *Backoff) Rest(object types.UID, now time.Time, tasks ...Task) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := time.Duration(0)
	for name, r := range b.known[object] {
		if r.failing && r.wait >= lasting || slices.ContainsFunc(tasks, func(task Task) bool { return task.Name == name }) {
			rest = max(rest, r.until.Sub(now))
		}
	}
	return rest
}

// anyRefused is WasRefused for all tasks.
func (b *Backoff) anyRefused(object types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.known[object]) > 0
}

// Succeeded drops what is known about an object's task, whatever its target.
func (b *Backoff) Succeeded(object types.UID, task Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tasks := b.known[object]
	if _, ok := tasks[task.Name]; !ok {
		return
	}
	delete(tasks, task.Name)
	if b.size--; len(tasks) == 0 {
		delete(b.known, object)
	}
}

// Forget drops what is known about an object that is gone.
func (b *Backoff) Forget(object types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size -= len(b.known[object])
	delete(b.known, object)
}

// Len returns how many objects something is known about.
func (b *Backoff) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.known)
}
