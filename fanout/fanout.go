package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// PerPass is the largest number of objects that a pass changes for each task, unless Task.Most is smaller.
const PerPass = 500

// again is the time until the next pass if a pass has work left, or if the outcome of a write is unknown.
const again = 100 * time.Millisecond

// endedAgain is the time until the next pass for an owner in a terminating namespace.
const endedAgain = time.Minute

// DefaultCalls is the default limit on the concurrent requests of a namespace. If requests already wait for the API
// server, a larger number does not start more Pods per second, but keeps each Pod out of service for longer.
const DefaultCalls = 5

// Fanout limits the concurrent requests of all passes of a controller, and remembers refusals. A Fanout is safe for
// concurrent use. Make a Fanout with New.
type Fanout struct {
	// Backoff remembers refusals about owners and about single Pods.
	Backoff *Backoff

	limit *limit
}

// New returns a Fanout with a limit on the concurrent requests of each namespace. All namespaces together may send
// two more requests than a single namespace. The last of these two is reserved for a namespace that sends no requests
// yet. A request that takes longer than a second, because of a webhook, no longer counts towards the limits while
// other requests wait. Zero or less means DefaultCalls.
func New(calls int) *Fanout {
	if calls <= 0 {
		calls = DefaultCalls
	}
	return &Fanout{Backoff: &Backoff{}, limit: newLimit(calls)}
}

// Observed is a pass's snapshot of its owner and the owner's objects. An *ownercache.View implements Observed.
type Observed interface {
	// Object returns the owner.
	Object() client.Object
	// Time returns the time of the snapshot.
	Time() time.Time
	// InDoubt reports whether the outcome of a write in this pass is unknown.
	InDoubt() bool
	// WakeAfter requeues the owner after the duration.
	WakeAfter(time.Duration)
	// Gone reports whether an object is known to be deleted already, so that no further event about the object will
	// arrive.
	Gone(metav1.Object) bool
}

// Pass carries out the decisions about an owner in a single reconcile. A Pass is safe for concurrent use. Make a Pass
// with Fanout.Begin.
type Pass struct {
	fanout  *Fanout
	view    Observed
	changed atomic.Bool
	refused atomic.Int32 // number of requests of the pass that the API server refused
	ended   atomic.Bool  // the owner's namespace is terminating

	mu    sync.Mutex
	after time.Duration
}

// Begin begins a pass for the owner of the view.
func (f *Fanout) Begin(view Observed) *Pass { return &Pass{fanout: f, view: view} }

// Owner returns the owner of the pass.
func (p *Pass) Owner() client.Object { return p.view.Object() }

// Wake requeues the owner after d, unless an earlier requeue is already set. If d is zero or less, Wake does nothing.
func (p *Pass) Wake(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d > 0 && (p.after == 0 || d < p.after) {
		p.after = d
	}
}

// Changed reports whether any write of the pass has succeeded.
func (p *Pass) Changed() bool { return p.changed.Load() }

// UntilChanged runs the phases in order, and stops after a phase that has changed an object, left the outcome of a
// write unknown, or failed with an error that deserves a retry. If the pass has changed an object before the call, or
// the outcome of a write is unknown, UntilChanged runs no phase. The error joins the errors of the phases.
func (p *Pass) UntilChanged(phases ...func() error) error {
	var errs []error
	for _, phase := range phases {
		if p.changed.Load() || p.ended.Load() || p.view.InDoubt() || reason.Retryable(errs...) != nil {
			break
		}
		errs = append(errs, phase())
	}
	return errors.Join(errs...)
}

// Result is the result of a reconcile. Result returns only the errors that deserve a retry. All other errors are
// final: users see these errors only if the caller reports the errors in a condition or an event. If Result returns
// an error and Wake was called, Result requeues the owner itself: controller-runtime ignores RequeueAfter when an
// error is returned.
func (p *Pass) Result(errs ...error) (ctrl.Result, error) {
	p.wakeInDoubt()
	p.mu.Lock()
	after := p.after
	p.mu.Unlock()
	if p.ended.Load() {
		// All objects of the namespace are about to be deleted, and retries would only fail. The owner is still
		// requeued, because the API server's own cache may be stale, and a new namespace of the same name may exist.
		return ctrl.Result{RequeueAfter: endedAgain}, nil
	}
	err := reason.Retryable(errs...)
	if err == nil {
		return ctrl.Result{RequeueAfter: after}, nil
	}
	if after > 0 {
		p.view.WakeAfter(after)
	}
	return ctrl.Result{}, err
}

// wakeInDoubt requeues the owner after an unanswered write: there may be no event about the outcome. If consecutive
// passes end with unknown outcomes, the time between passes grows.
func (p *Pass) wakeInDoubt() {
	task := Task{Name: "pass in doubt", First: again, Last: time.Minute}
	if !p.view.InDoubt() {
		p.fanout.Backoff.Succeeded(p.Owner().GetUID(), task)
		return
	}
	p.Wake(p.fanout.Backoff.Refused(p.attempt(task), errors.New("a write was not answered"), p.view.Time()))
}

// attempt describes an attempt at a task for the owner, not for a single Pod. If the owner's spec changes, the attempt
// is made again at once.
func (p *Pass) attempt(task Task) Attempt {
	owner := p.Owner()
	return Attempt{Object: owner.GetUID(), Task: task, Target: strconv.FormatInt(owner.GetGeneration(), 10)}
}

// Once calls do for the owner unless the API server refused the task a moment ago. do reports whether anything was
// changed. After a change the owner is requeued soon, because the controller may not watch the changed object. A
// refusal is returned as a final error.
func (p *Pass) Once(ctx context.Context, task Task, do func() (changed bool, err error)) error {
	if err := p.resting(task); err != nil {
		return err
	}
	changed, err := do()
	p.note(changed, true)
	return p.settle(ctx, task, err == nil, podwrite.IsLasting(err) && !isRemembered(err), err)
}

// Create calls do for the indexes 0 to n-1, for at most Task.Most of them, in concurrent batches of 1, 2, 4, ... calls.
// If a call of a batch fails, no further batch starts. Create returns the number of successful calls. The error joins
// the errors of all calls. Every error is final unless ctx has ended: otherwise events of created objects, such as
// claims, would trigger the next attempt at once.
func (p *Pass) Create(ctx context.Context, task Task, n int, do func(ctx context.Context, i int) error) (made int, err error) {
	if n <= 0 {
		return 0, nil
	}
	if err := p.resting(task); err != nil {
		return 0, err
	}
	most := task.most()
	made, err = slowStart(ctx, min(n, most), p.bounded(do))
	p.note(made > 0, n > most && err == nil)
	// If ctx has ended, the API server has not refused the request.
	return made, p.settle(ctx, task, err == nil, err != nil && ctx.Err() == nil, err)
}

// CreateEach is like Create, but each call has a name that is unique within the owner. Calls that failed at their last
// attempt come last, so that a repeated failure does not stop the batches of other calls.
func (p *Pass) CreateEach(ctx context.Context, task Task, n int, name func(i int) string, do func(ctx context.Context, i int) error) (made int, err error) {
	owner, backoff := p.Owner().GetUID(), p.fanout.Backoff
	var first, last []int
	for i := range n {
		if backoff.WasRefused(owner, Task{Name: name(i)}) {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	order := slices.Concat(first, last)
	return p.Create(ctx, task, n, func(ctx context.Context, i int) error {
		one := Task{Name: name(order[i])}
		err := do(ctx, order[i])
		if err != nil {
			backoff.Refused(Attempt{Object: owner, Task: one}, err, p.view.Time())
			return err
		}
		backoff.Succeeded(owner, one)
		return nil
	})
}

// Each calls do concurrently for the objects, until Task.Most objects were changed. do reports whether the object was
// changed, even if do also returns an error. An object whose do returned an error does not count as success. Objects
// that need no change, because of a pending hook or a back-off, do not count towards Task.Most, and so do not delay
// other objects.
//
// If do fails for an object, Each goes on with all other objects, unless the API server refused the request before
// any success: if a policy refuses all objects, Each stops after a few requests, and later passes try a single object
// at a time. If an object was deleted or replaced (podwrite.Replaced), its error is no failure. After a request
// without a response, or with an error of the server (5xx), the object is not tried again for a second, then for two
// seconds, and so on up to half a minute: otherwise a failing webhook would make the controller take a Pod out of
// service again and again. The error joins the errors of all objects. Refusals, and the errors of objects in
// back-off, are final errors.
func Each[T metav1.Object](ctx context.Context, p *Pass, task Task, objects []T, do func(context.Context, T) (changed bool, err error)) error {
	if len(objects) == 0 {
		return nil
	}
	if err := p.resting(task); err != nil {
		return err
	}
	objects, atOnce := inTurn(p, task, objects)
	before, places := p.refused.Load(), newPlaces(task.most())
	var changed, succeeded atomic.Bool
	errs := together(ctx, 0, len(objects), atOnce, func(ctx context.Context, i int) error {
		if !places.take() {
			return nil
		}
		used := false
		defer func() { places.end(used) }()
		giveBack, err := p.fanout.limit.take(ctx, p.Owner().GetNamespace())
		if err != nil {
			return nil // ctx has ended, and Each reports this once for all objects
		}
		defer giveBack()
		if ctx.Err() != nil || p.refused.Load() > before && !succeeded.Load() {
			return nil
		}
		did, err := eachOne(ctx, p, task, objects[i], do)
		if used = did || err != nil && !isRemembered(err); did {
			changed.Store(true)
		}
		if did && err == nil {
			succeeded.Store(true)
		}
		return p.judge(err)
	})
	err := errors.Join(errs...)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p.note(changed.Load(), places.wereShort())
	return p.settle(ctx, task, succeeded.Load(), err != nil && p.refused.Load() > before, err)
}

// inTurn returns the objects in the order in which Each calls do, and how many calls may run at the same time.
func inTurn[T metav1.Object](p *Pass, task Task, objects []T) (ordered []T, atOnce int) {
	backoff := p.fanout.Backoff
	if atOnce = p.fanout.limit.perGroup; backoff.WasRefused(p.Owner().GetUID(), task) {
		atOnce = 1
	}
	if atOnce == 1 || len(objects) > task.most() && backoff.Len() > 0 {
		objects = leastRefusedFirst(backoff, objects)
	}
	return objects, atOnce
}

// eachOne calls do for an object, unless do failed a moment ago.
func eachOne[T metav1.Object](ctx context.Context, p *Pass, task Task, object T, do func(context.Context, T) (bool, error)) (changed bool, err error) {
	attempt := p.attempt(task.whichFailed())
	attempt.Object = object.GetUID()
	if wait, err := p.fanout.Backoff.Resting(attempt, p.view.Time()); err != nil {
		p.Wake(wait)
		return false, err
	}
	changed, err = do(ctx, object)
	p.remember(ctx, attempt, err)
	if err != nil && p.view.Gone(object) {
		p.fanout.Backoff.Forget(object.GetUID()) // no later event would remove the remembered refusal
	}
	return changed, err
}

// Try calls do for an object, unless the API server refused the task for the object a moment ago. Use Try inside do
// of Each if the refusal of an object says nothing about other objects. Try remembers a refusal, or a final error,
// for the object (see Backoff.WasRefused). The owner is requeued at the end of the back-off, and also soon, so that
// other objects are handled before. If the owner's spec changes, the next attempt is allowed at once. Try does not
// mark the pass as changed: call Try inside do of Each or Once, whose result marks the pass.
func (p *Pass) Try(task Task, object types.UID, do func() error) error {
	attempt := p.attempt(task)
	attempt.Object = object
	if wait, err := p.fanout.Backoff.Resting(attempt, p.view.Time()); err != nil {
		p.Wake(wait)
		return err
	}
	err := do()
	switch {
	case err == nil:
		p.fanout.Backoff.Succeeded(object, task)
	case reason.IsFinal(err), podwrite.IsLasting(err):
		p.Wake(min(p.fanout.Backoff.Refused(attempt, err, p.view.Time()), again))
	}
	return err
}

// Rests reports whether Try would skip the object now because of a back-off.
func (p *Pass) Rests(task Task, object types.UID) bool {
	attempt := p.attempt(task)
	attempt.Object = object
	_, err := p.fanout.Backoff.Resting(attempt, p.view.Time())
	return err != nil
}

// remember starts an object's back-off after a request that failed without a refusal. Conflicts are excluded because an
// event will follow, and 429 because the response names the time of the retry.
func (p *Pass) remember(ctx context.Context, a Attempt, err error) {
	switch {
	case err == nil:
		p.fanout.Backoff.Succeeded(a.Object, a.Task)
	case ctx.Err() != nil, reason.IsFinal(err), errors.Is(err, podwrite.Replaced), podwrite.IsLasting(err), isRemembered(err),
		apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsTooManyRequests(err):
	default:
		p.Wake(p.fanout.Backoff.Refused(a, err, p.view.Time()))
	}
}

// judge turns the error of do for an object into the error that Each reports for the object.
func (p *Pass) judge(err error) error {
	switch {
	case err == nil, errors.Is(err, podwrite.Replaced):
		return nil
	case isRemembered(err):
		return err
	case podwrite.IsLasting(err):
		p.refused.Add(1)
		return reason.Final(err)
	}
	return err
}

// isRemembered reports whether an error is about an attempt that was not made because of an earlier refusal.
func isRemembered(err error) bool {
	_, ok := errors.AsType[remembered](err)
	return ok
}

// bounded makes calls wait until the limit on concurrent requests allows another request.
func (p *Pass) bounded(do func(context.Context, int) error) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		done, err := p.fanout.limit.take(ctx, p.Owner().GetNamespace())
		if err != nil {
			return err
		}
		defer done()
		return do(ctx, i)
	}
}

// note records that the pass has changed objects. If objects remain because a pass may change no more, the owner is
// requeued.
func (p *Pass) note(changed, more bool) {
	if !changed {
		return
	}
	p.changed.Store(true)
	if more {
		p.Wake(again)
	}
}

// resting returns why a task must not be tried now, nil if the task may be tried.
func (p *Pass) resting(task Task) error {
	switch {
	case p.fanout.limit == nil:
		return reason.Final(errors.New("fanout: make a Fanout with New"))
	case task.Name == "":
		return reason.Final(errors.New("fanout: Task.Name is required"))
	}
	wait, err := p.fanout.Backoff.Resting(p.attempt(task), p.view.Time())
	p.Wake(wait)
	return err
}

// settle records the result of a task: a success, or a refusal that starts a back-off.
func (p *Pass) settle(ctx context.Context, task Task, succeeded, rest bool, err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		p.ended.Store(true)
		return nil
	}
	owner := p.Owner().GetUID()
	switch {
	case succeeded:
		p.fanout.Backoff.Succeeded(owner, task)
	case rest:
		wait := p.fanout.Backoff.Refused(p.attempt(task), err, p.view.Time())
		p.Wake(wait)
		logr.FromContextOrDiscard(ctx).Info("refused, will be tried again", "task", task.Name, "after", wait, "why", err.Error())
	}
	switch {
	case err == nil:
		return nil
	case rest && !succeeded:
		return reason.Final(err)
	}
	return fmt.Errorf("%s: %w", task.Name, err)
}

// leastRefusedFirst sorts objects without a refusal first. Otherwise refused objects could use up the limit of every
// pass.
func leastRefusedFirst[T metav1.Object](b *Backoff, objects []T) []T {
	out := slices.Clone(objects)
	slices.SortStableFunc(out, func(x, y T) int {
		return boolToInt(b.anyRefused(x.GetUID())) - boolToInt(b.anyRefused(y.GetUID()))
	})
	return out
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
