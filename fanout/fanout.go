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

// PerPass is how many objects a pass changes for each of its tasks, unless Task.Most says less.
const PerPass = 500

// again is when to go on with what a pass had no room for, or could not know.
const again = 100 * time.Millisecond

// endedAgain is when to look again at an owner in a namespace that is terminating.
const endedAgain = time.Minute

// DefaultCalls is how many requests of one namespace are under way at most, unless New is told otherwise. More do not start more
// Pods a second as long as the API server is what they wait for, but keep each Pod out of service for longer.
const DefaultCalls = 5

// Fanout is what all passes of a controller share: the bound on requests under way, and the memory of what was refused. It is
// safe for concurrent use. Make it with New.
type Fanout struct {
	// Backoff remembers what was refused, of owners and of single Pods.
	Backoff *Backoff

	limit *limit
}

// New returns a Fanout with a bound on the requests of one namespace that are under way. There are two more for other namespaces, of
// which the last is for one that has none under way; and a request that takes longer than a second, because a webhook does, no longer
// counts among those that others wait for. Zero or less stands for DefaultCalls.
func New(calls int) *Fanout {
	if calls <= 0 {
		calls = DefaultCalls
	}
	return &Fanout{Backoff: &Backoff{}, limit: newLimit(calls)}
}

// Observed is what a pass needs to know of what it acts for. An *ownercache.View is one.
type Observed interface {
	// Object is the owner.
	Object() client.Object
	// Time is when it was observed.
	Time() time.Time
	// InDoubt reports whether the outcome of a write of this pass is not known.
	InDoubt() bool
	// WakeAfter has the owner reconciled once more after a while.
	WakeAfter(time.Duration)
	// Gone reports whether an object is known to exist no longer: nobody is going to say so once more.
	Gone(metav1.Object) bool
}

// Pass carries out what was decided for one owner. It is safe for concurrent use. Make it with Fanout.Begin.
type Pass struct {
	fanout  *Fanout
	view    Observed
	changed atomic.Bool
	refused atomic.Int32 // requests of this pass that the API server did not accept
	ended   atomic.Bool  // the namespace is terminating

	mu    sync.Mutex
	after time.Duration
}

// Begin begins a pass.
func (f *Fanout) Begin(view Observed) *Pass { return &Pass{fanout: f, view: view} }

// Owner returns what the pass is for.
func (p *Pass) Owner() client.Object { return p.view.Object() }

// Wake asks for another pass after d, unless an earlier one is asked for already. Zero and less ask for none.
func (p *Pass) Wake(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d > 0 && (p.after == 0 || d < p.after) {
		p.after = d
	}
}

// Changed reports whether anything was written.
func (p *Pass) Changed() bool { return p.changed.Load() }

// UntilChanged runs the phases in their order until one has changed something, has left a write in doubt, or failed in a way
// that is worth trying again. It runs none if that was so before. The error joins those of the phases.
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

// Result is what a reconcile returns. Of the errors it returns those that are worth trying again: the others are final, and nobody sees them unless
// the caller puts them in a condition or an event. Where there are any, it has the
// owner woken as well when Wake has asked for that: controller-runtime drops RequeueAfter beside an error.
func (p *Pass) Result(errs ...error) (ctrl.Result, error) {
	p.wakeInDoubt()
	p.mu.Lock()
	after := p.after
	p.mu.Unlock()
	if p.ended.Load() {
		// Everything here is about to go, and trying again would only make noise, unless an API server's cache was late: the namespace
		// may have been created anew.
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

// wakeInDoubt asks for the next pass where a write was not answered: no event need tell what has become of it. Where pass after pass ends in
// doubt there is more and more time between them.
func (p *Pass) wakeInDoubt() {
	task := Task{Name: "pass in doubt", First: again, Last: time.Minute}
	if !p.view.InDoubt() {
		p.fanout.Backoff.Succeeded(p.Owner().GetUID(), task)
		return
	}
	p.Wake(p.fanout.Backoff.Refused(p.attempt(task), errors.New("a write was not answered"), p.view.Time()))
}

// attempt is one at a task of the owner as a whole. A change of its spec is a reason to try again at once.
func (p *Pass) attempt(task Task) Attempt {
	owner := p.Owner()
	return Attempt{Object: owner.GetUID(), Task: task, Target: strconv.FormatInt(owner.GetGeneration(), 10)}
}

// Once does something for the owner unless that was refused a moment ago. do reports whether it has changed anything; then the
// owner is looked at again soon, because what is done once need not be watched. A refusal is final.
func (p *Pass) Once(ctx context.Context, task Task, do func() (changed bool, err error)) error {
	if err := p.resting(task); err != nil {
		return err
	}
	changed, err := do()
	p.note(changed, true)
	return p.settle(ctx, task, err == nil, podwrite.IsLasting(err) && !isRemembered(err), err)
}

// Create calls do for 0 to n-1, at most as many as Task.Most says, in batches of 1, 2, 4, ... calls side by side; a batch in which one
// fails is the last. It returns how many succeeded. The error joins those of all calls. Whatever it is, it is final, unless ctx has
// ended: the events of what was made, of claims for example, would lead to the next attempt at once.
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

// CreateEach is Create for calls of which each has a name of its own, within the owner. One that failed when it was last made comes after the
// others, so that it does not end a batch that others could be in.
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

// Each calls do for the objects, side by side, until as many were changed as Task.Most says. do reports whether it has changed anything, also where it
// returns an error after that; an object with an error has not succeeded.
// Objects that needed nothing, because they wait for a hook or rest, are not counted: they keep none of the others waiting.
//
// One object's failure does not keep the others from being worked on, unless it is a refusal before anything has succeeded:
// where a policy refuses all of them, a few requests find out, and one at a time afterwards. What is gone by now
// (podwrite.Replaced) is no failure. An object whose request is not answered, or with an error of the server (5xx), rests for a second, then
// two, and so on up to half a minute: a webhook that is down must not have a Pod leave service again and again. The error joins those of
// all objects; refusals among them, and those of objects that rest, are final.
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
			return nil // ctx has ended, which is said once for all objects
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

// inTurn returns the objects in the order in which they have their turn, and how many of them at once.
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

// eachOne calls do for an object, unless that failed a moment ago.
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

// Try does something for one object, unless that was refused a moment ago. It is for what Each does where a refusal of one object says
// nothing about the next. A refusal is remembered with the object (Backoff.WasRefused tells), a final error too: the owner is woken when it
// has rested long enough, and once more soon, because others may have their turn first. A change of the owner's spec is tried at once. It does not mark the pass as changed: call it in what
// Each or Once does, which says so.
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

// remember has an object rest whose request failed without being refused. A conflict has an event, and 429 says when to come again.
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

// judge turns the error of one object into what is worth telling.
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

// isRemembered reports whether an error is about an attempt that was not made.
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

// note keeps that something was changed. Where there was more to do than one pass does, the next goes on.
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

// settle remembers what has become of a task: that it succeeded, or that it is to rest for a while.
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

// leastRefusedFirst puts the objects of which nothing was refused before the others, which could hide them for ever otherwise.
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
