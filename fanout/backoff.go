package fanout

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

// Task is a kind of write, such as "delete Pods", with the settings of its back-off after refused attempts. Name is
// required: the name distinguishes the tasks for an object, and appears in errors and logs.
type Task struct {
	Name string
	// First is the back-off after the first refusal. Each further refusal doubles the back-off, up to Last; the
	// back-off starts from First again if the previous back-off ended more than Last ago. Zero means DefaultFirst and
	// DefaultLast. If Last is below First, First is used for both.
	First, Last time.Duration
	// Most is the largest number of objects that a pass changes or creates. Nil means PerPass, which is also the upper
	// limit.
	Most *int

	// failing says that the task is for records of requests that failed without a refusal.
	failing bool
}

// DefaultFirst and DefaultLast are the back-off of tasks that set none. The back-off is needed because no event tells a
// controller that a quota or policy has changed.
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

// most returns how many objects a pass may change.
func (t Task) most() int {
	if t.Most == nil {
		return PerPass
	}
	return min(max(*t.Most, 0), PerPass)
}

// Attempt is an attempt at a task for an object.
type Attempt struct {
	// Object is the object of the attempt: a Pod, or the owner of a Pod to be created.
	Object types.UID
	Task   Task
	// Target is a value on which the attempt depends: the name of a revision, or the generation of the owner. If the
	// target changes, earlier refusals no longer apply, and the attempt is made at once.
	Target string
}

// Backoff remembers refused attempts, so that a controller does not repeat an attempt in an endless loop: each
// attempt costs requests and may change a Pod's readiness twice, and the events of these changes would trigger the
// next attempt. A Backoff lives in the memory of a process: after a restart each attempt is made once more. A Backoff
// is safe for concurrent use. The zero value is ready for use.
//
// While a refusal is remembered, the same attempt must not be made. Actions that began before the refusal must still
// be finished: if the readiness gate of a Pod was closed before a refused update, inplaceupdate.Updater.Next opens
// the gate again.
type Backoff struct {
	mu    sync.Mutex
	known map[types.UID]map[string]refusal // refusals by object and task
	size  int                              // number of known refusals
	next  int                              // number of known refusals at which sweep next looks for old refusals
}

type refusal struct {
	target string
	until  time.Time
	wait   time.Duration
	last   time.Duration
	err    error

	failing bool // copied from the task
}

// Refused remembers why an attempt was refused, and returns the back-off. For each object and task, only the last
// refusal is kept. If err is nil, Refused remembers nothing and returns zero.
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

// sweep limits the memory of a Backoff. If many refusals are known, sweep removes refusals without a recent attempt:
// the objects of such refusals were probably deleted without an event.
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

// Resting returns why an attempt must not be made now, as a final error, and the remaining back-off. The error is nil
// if the attempt may be made: there was no refusal, or the back-off is over.
func (b *Backoff) Resting(a Attempt, now time.Time) (wait time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.known[a.Object][a.Task.Name]
	if !ok || known.target != a.Target || !now.Before(known.until) {
		return 0, nil
	}
	return known.until.Sub(now), reason.Final(remembered{known.err})
}

// remembered is the error for an attempt that is not made because of an earlier refusal.
type remembered struct{ error }

func (r remembered) Unwrap() error { return r.error }

// WasRefused reports whether the last attempt at any of the tasks was refused for the object, at any time and for any
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

// whichFailed returns the task under which Each records a request that failed without a refusal.
func (t Task) whichFailed() Task {
	return Task{Name: t.Name + ", which failed", First: time.Second, Last: 30 * time.Second, failing: true}
}

// lasting is the back-off from which on an object counts as failed several times in a row.
const lasting = 8 * time.Second

// Rest returns the longest remaining back-off of an object's tasks, for any target. Requests of Each that failed
// several times in a row also count as refused. One or two failures, such as lost responses, do not count.
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

// anyRefused reports whether the last attempt at any task was refused for the object.
func (b *Backoff) anyRefused(object types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.known[object]) > 0
}

// Succeeded removes the remembered refusal of an object's task, for any target.
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

// Forget removes the remembered refusals of a deleted object.
func (b *Backoff) Forget(object types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size -= len(b.known[object])
	delete(b.known, object)
}

// Len returns the number of objects with remembered refusals.
func (b *Backoff) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.known)
}
