package fanout

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

// Task is a kind of attempt, with its rests after refusals. Name is required: the name tells the tasks of an object
// apart, and stands in errors and logs. An example is "delete Pods".
type Task struct {
	Name string
	// First is the rest after the first refusal. Each further refusal doubles the rest, up to Last, unless the rest before
	// ended more than Last ago. Zero stands for DefaultFirst and DefaultLast. A Last below First stands for First.
	First, Last time.Duration
	// Most is the largest number of objects changed, or created, in a pass. Nil stands for PerPass, which is also the
	// upper limit.
	Most *int

	// failing says that the task is about failed, but not refused, requests.
	failing bool
}

// DefaultFirst and DefaultLast are the rests of tasks without their own. No event tells a controller of a changed quota
// or policy.
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

// Attempt is an attempt at a task.
type Attempt struct {
	// Object is the object of the attempt: a Pod, or the owner of a Pod to be created.
	Object types.UID
	Task   Task
	// Target is the dependency of the attempt: the name of a revision, or the generation of the owner. With another target
	// nothing is known yet, and the attempt is made at once.
	Target string
}

// Backoff remembers refused attempts, so the same attempt is not made in a loop: each attempt costs requests and may
// change a Pod's readiness twice, and the events would lead to the next attempt for ever. A Backoff is memory of a
// single process: after a restart each attempt is made once more. A Backoff is safe for concurrent use. The zero value
// is ready.
//
// A remembered refusal means that the attempt must not be made now. Go on with earlier begun actions: a Pod with a gate
// closed before a refused update comes back into service by inplaceupdate.Updater.Next.
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

// Refused remembers why an attempt was refused, and returns the rest. An object has a single entry for each task, the
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

// sweep makes room for another refusal. If many refusals are known, sweep drops refusals without an attempt for a long
// time: their objects are gone, without any event.
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

// Resting returns why an attempt must not be made now, as a final error, and the remaining rest. The error is nil if
// the attempt may be made: there was no refusal, or the rest is over.
func (b *Backoff) Resting(a Attempt, now time.Time) (wait time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.known[a.Object][a.Task.Name]
	if !ok || known.target != a.Target || !now.Before(known.until) {
		return 0, nil
	}
	return known.until.Sub(now), reason.Final(remembered{known.err})
}

// remembered is the error of an attempt not made.
type remembered struct{ error }

func (r remembered) Unwrap() error { return r.error }

// WasRefused reports whether the last attempt at any of the object's tasks was refused, at any time and for any target.
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

// whichFailed is the task under which Each notes a failed, but not refused, request.
func (t Task) whichFailed() Task {
	return Task{Name: t.Name + ", which failed", First: time.Second, Last: 30 * time.Second, failing: true}
}

// lasting is the rest from which on an object counts as failed several times in a row.
const lasting = 8 * time.Second

// Rest returns the longest remaining rest of an object's tasks, for any target. Requests of Each that failed several
// times in a row count too. After a lost answer or two an object keeps its turn.
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

// Succeeded drops the memory of an object's task, for any target.
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

// Forget drops the memory of a gone object.
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
