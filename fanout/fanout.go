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

// PerPass is the largest number of objects changed by a pass for each task, unless Task.Most says less.
const PerPass = 500

// again is the time until a pass goes on with the rest of its work, or after an unknown outcome.
const again = 100 * time.Millisecond

// endedAgain is the time until another look at an owner in a terminating namespace.
const endedAgain = time.Minute

// DefaultCalls is the largest number of requests of a namespace under way, unless New is told otherwise. A larger
// number does not start more Pods a second as long as requests wait for the API server, but keeps each Pod out of
// service for longer.
const DefaultCalls = 5

// Fanout is shared by all passes of a controller: the bound on requests under way, and the memory of refusals. A Fanout
// is safe for concurrent use. Make a Fanout with New.
type Fanout struct {
	// Backoff remembers refusals, of owners and of single Pods.
	Backoff *Backoff

	limit *limit
}

// New returns a Fanout with a bound on a namespace's requests under way. All namespaces together may have two requests
// more. The last place is for a namespace without requests under way. A request that takes longer than a second,
// because of a webhook, no longer holds a place for which others wait. Zero or less stands for DefaultCalls.
func New(calls int) *Fanout {
	if calls <= 0 {
		calls = DefaultCalls
	}
	return &Fanout{Backoff: &Backoff{}, limit: newLimit(calls)}
}

// Observed is a pass's view of its owner. An *ownercache.View implements Observed.
type Observed interface {
	// Object is the owner.
	Object() client.Object
	// Time is the time of the observation.
	Time() time.Time
	// InDoubt reports whether the outcome of a write of the pass is unknown.
	InDoubt() bool
	// WakeAfter has the owner reconciled once more after a while.
	WakeAfter(time.Duration)
	// Gone reports whether an object is known to exist no longer: nobody is going to say so once more.
	Gone(metav1.Object) bool
}

// Pass carries out the decisions for an owner. A Pass is safe for concurrent use. Make a Pass with Fanout.Begin.
type Pass struct {
	fanout  *Fanout
	view    Observed
	changed atomic.Bool
	refused atomic.Int32 // requests of the pass refused by the API server
	ended   atomic.Bool  // the namespace is terminating

	mu    sync.Mutex
	after time.Duration
}

// Begin begins a pass.
func (f *Fanout) Begin(view Observed) *Pass { return &Pass{fanout: f, view: view} }

// Owner returns the owner of the pass.
func (p *Pass) Owner() client.Object { return p.view.Object() }

// Wake asks for another pass after d, unless an earlier pass is asked for already. Zero and less ask for none.
func (p *Pass) Wake(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d > 0 && (p.after == 0 || d < p.after) {
		p.after = d
	}
}

// Changed reports whether anything was written.
func (p *Pass) Changed() bool { return p.changed.Load() }

// UntilChanged runs the phases in order until a phase has changed something, has left a write in doubt, or failed with
// an error worth another attempt. After such an earlier event in the pass, UntilChanged runs no phase. The error joins
// the errors of the phases.
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

// Result is the result of a reconcile. Result returns only the errors worth another attempt. All further errors are
// final, and invisible unless the caller puts them in a condition or an event. Beside a returned error, Result wakes
// the owner if Wake has asked for another pass: controller-runtime drops RequeueAfter beside an error.
func (p *Pass) Result(errs ...error) (ctrl.Result, error) {
	p.wakeInDoubt()
	p.mu.Lock()
	after := p.after
	p.mu.Unlock()
	if p.ended.Load() {
		// Everything here is about to go, and trying again would only make noise, unless an API server's cache was late: the
		// namespace may have been created anew.
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

// wakeInDoubt asks for the next pass after an unanswered write: no event need tell the outcome. If pass after pass ends
// in doubt, the time between passes grows.
func (p *Pass) wakeInDoubt() {
	task := Task{Name: "pass in doubt", First: again, Last: time.Minute}
	if !p.view.InDoubt() {
		p.fanout.Backoff.Succeeded(p.Owner().GetUID(), task)
		return
	}
	p.Wake(p.fanout.Backoff.Refused(p.attempt(task), errors.New("a write was not answered"), p.view.Time()))
}

// attempt is an attempt at a task of the owner as a whole. A change of the owner's spec is a reason to try again at
// once.
func (p *Pass) attempt(task Task) Attempt {
	owner := p.Owner()
	return Attempt{Object: owner.GetUID(), Task: task, Target: strconv.FormatInt(owner.GetGeneration(), 10)}
}

// Once does something for the owner unless a refusal was a moment ago. do reports any change. After a change the owner
// is looked at again soon, because the changed object need not be watched. A refusal is final.
func (p *Pass) Once(ctx context.Context, task Task, do func() (changed bool, err error)) error {
	if err := p.resting(task); err != nil {
		return err
	}
	changed, err := do()
	p.note(changed, true)
	return p.settle(ctx, task, err == nil, podwrite.IsLasting(err) && !isRemembered(err), err)
}

// Create calls do for 0 to n-1, at most as many as Task.Most says, in batches of 1, 2, 4, ... calls side by side. A
// batch with a failed call is the last. Create returns the number of successful calls. The error joins the errors of
// all calls. Every error is final, unless ctx has ended: the events of created objects, of claims for example, would
// otherwise lead to the next attempt at once.
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
	// Where ctx has ended, nobody has refused anything.
	return made, p.settle(ctx, task, err == nil, err != nil && ctx.Err() == nil, err)
}

// CreateEach is Create for calls with a name of their own within the owner. A call whose last attempt failed comes
// after all others, so the call does not end a batch with other calls.
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

// Each calls do for the objects, side by side, until as many were changed as Task.Most says. do reports any change,
// even beside an error. An object with an error has not succeeded. Objects without need for a change, because they wait
// for a hook or rest, do not count: they keep no other object waiting.
//
// An object's failure does not stop the work on all others, unless the failure is a refusal before any success: if a
// policy refuses all objects, a few requests find out, and afterwards a single request at a time. A gone object
// (podwrite.Replaced) is no failure. After a request without an answer, or with an error of the server (5xx), the
// object rests for a second, then two, and so on up to half a minute: a broken webhook must not have a Pod leave
// service again and again. The error joins the errors of all objects. Refusals and the errors of resting objects are
// final.
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
			return nil // ctx has ended, which is reported once for all objects
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

// inTurn returns the objects in the order of their turns, and the number of objects at once.
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
		p.fanout.Backoff.Forget(object.GetUID()) // its event came before
	}
	return changed, err
}

// Try does something for an object, unless a refusal was a moment ago. Try is for the calls of Each if an object's
// refusal says nothing about the next object. Try remembers a refusal, and also a final error, with the object (see
// Backoff.WasRefused). The owner is woken at the end of the rest, and once more soon, because other objects may have
// their turn first. A change of the owner's spec allows an attempt at once. Try does not mark the pass as changed: call
// Try within the do of Each or Once, whose result marks the pass.
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

// Rests reports whether Try would do nothing for an object now.
func (p *Pass) Rests(task Task, object types.UID) bool {
	attempt := p.attempt(task)
	attempt.Object = object
	_, err := p.fanout.Backoff.Resting(attempt, p.view.Time())
	return err != nil
}

// remember has an object rest after a failed, but not refused, request. A conflict has an event, and 429 says when to
// come again.
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

// judge turns the error of an object into the error to report.
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

// isRemembered reports whether an error is about an attempt not made.
func isRemembered(err error) bool {
	_, ok := errors.AsType[remembered](err)
	return ok
}

// bounded has calls wait for a place.
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

// note records a change. If more work is left than fits in a pass, the next pass goes on.
func (p *Pass) note(changed, more bool) {
	if !changed {
		return
	}
	p.changed.Store(true)
	if more {
		p.Wake(again)
	}
}

// resting returns why a task is not tried now.
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

// settle remembers the result of a task: a success, or a rest.
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

// leastRefusedFirst puts objects without a refusal first, because refused objects could otherwise hide them for ever.
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
