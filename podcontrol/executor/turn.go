package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// busyRetry is the time until the next reconcile of the owner if the loop over single Pods works on a Pod now. A Pod
// may be out of service because the start of its update has failed halfway, and no event would enqueue the owner.
const busyRetry = 100 * time.Millisecond

// errNoPlan means that the caller of UpdateTo has passed no plan although the rules allow in-place updates: a bug of
// the caller.
var errNoPlan = errors.New("no plan for an update in place is given, as rules other than Recreate need")

// Turn is a single reconcile of an owner: the view from the cache, the Pods, and the methods that change the Pods.
// Begin a Turn with Parts.Begin, or with Executor.For for a controller without revisions. A Turn's methods are safe
// for concurrent use; set its fields from a single goroutine, before the first change.
type Turn[O client.Object] struct {
	*ownercache.View[O]

	Pass *fanout.Pass
	// Selector is the owner's selector. If nil, all of the owner's Pods are selected.
	Selector labels.Selector
	// History is set by Parts.SyncHistory, and Set by Read.
	History *revision.History
	Set     *podcontrol.Set

	executor *Executor[O]
	rules    podcontrol.Rules
	waits    waits
	byNode   bool // PerNode was called
}

// For begins a Turn from a view and a pass.
func (x *Executor[O]) For(view *ownercache.View[O], pass *fanout.Pass) *Turn[O] {
	return &Turn[O]{View: view, Pass: pass, executor: x, rules: x.options.Rules(view.Owner)}
}

// Read reads the owner's Pods, and stores the result as the Turn's Set. If want has no selector, the Turn's Selector is
// used.
func (t *Turn[O]) Read(want podcontrol.Want) *podcontrol.Set {
	if want.Selector == nil {
		want.Selector = t.Selector
	}
	t.Set = t.executor.reader.Read(t.Owner.GetUID(), t.View.Pods, want, t.Now)
	return t.Set
}

// Each returns a function for fanout.Pass.UntilChanged. The returned function calls do for each of the Pods, as
// fanout.Each does. Each and all methods that change a Pod refuse Pods that the owner does not own (NotOwned).
func (t *Turn[O]) Each(
	ctx context.Context, task fanout.Task, pods []*corev1.Pod, do func(context.Context, *corev1.Pod) (changed bool, err error),
) func() error {
	return func() error {
		return fanout.Each(ctx, t.Pass, task, pods, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			if err := t.foreign(pod); err != nil {
				return false, err
			}
			return do(ctx, pod)
		})
	}
}

// remove deletes a Pod, or marks the Pod to wait for its hook.
func (t *Turn[O]) remove(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	if err := t.foreign(pod); err != nil {
		return false, err
	}
	step, err := t.executor.control.Delete(pod, t.rules, t.Now)
	if err != nil {
		return false, reason.Final(err)
	}
	return unlessWithheld(t.do(ctx, pod, step, "", true))
}

// Cancel cancels a deletion or update of a Pod that waits for its hook, when the owner wants to keep the Pod
// unchanged. changed reports whether anything was written.
func (t *Turn[O]) Cancel(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	if err := t.foreign(pod); err != nil {
		return false, err
	}
	step, err := t.executor.control.Cancel(pod, t.rules, t.Now)
	if err != nil {
		return false, reason.Final(err)
	}
	return unlessWithheld(t.do(ctx, pod, step, "", false))
}

// Settle is like Cancel, but cancels only an update that is no longer wanted, and never a deletion. changed reports
// whether anything was written.
func (t *Turn[O]) Settle(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	if err := t.foreign(pod); err != nil {
		return false, err
	}
	step, err := t.executor.control.Settle(pod, t.rules, t.Now)
	if err != nil {
		return false, reason.Final(err)
	}
	return unlessWithheld(t.do(ctx, pod, step, "", false))
}

// UpdateTo returns a function that takes a Pod to a revision, by an in-place update or by deletion, as the rules say.
// plan returns the plan for a Pod. UpdateTo does not call plan if the rules always recreate Pods. If a Pod is at the
// revision already, the function does nothing: the loop over single Pods finishes an update that has begun.
func (t *Turn[O]) UpdateTo(
	target *appsv1.ControllerRevision, plan func(*corev1.Pod) *inplaceupdate.Plan,
) func(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	return func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		if err := t.foreign(pod); err != nil {
			return false, err
		}
		if target == nil {
			return false, reason.Final(failed("updating", pod, errors.New("no target revision is given")))
		}
		if revision.Same(t.executor.control.RevisionOf(pod), target.Name) {
			return false, nil
		}
		if t.rules.Policy.Recreates() {
			return unlessWithheld(t.recreate(ctx, pod, target.Name, nil))
		}
		if plan == nil {
			return false, reason.Final(failed("updating", pod, errNoPlan))
		}
		how := plan(pod)
		if how == nil {
			return false, reason.Final(failed("updating", pod, errNoPlan))
		}
		return unlessWithheld(t.update(ctx, pod, how, target.Name))
	}
}

func (t *Turn[O]) update(ctx context.Context, pod *corev1.Pod, plan *inplaceupdate.Plan, target string) (changed bool, err error) {
	attempt := updateOf(pod, target)
	wait, refusal := t.executor.fanout.Backoff.Resting(attempt, t.Now)
	if lost := t.executor.lost(pod) != nil; lost && plan.Possible() {
		// The recorded state of the Pod's earlier update is lost, and the plan does not contain the changes of this
		// update. The loop over single Pods begins the earlier update again.
		t.Pass.Wake(busyRetry)
		return false, nil
	}
	if refusal == nil || !plan.Possible() {
		step, err := t.executor.control.Update(pod, t.rules, plan, target, t.Now)
		switch {
		case err != nil:
			return false, reason.Final(err)
		case step.Recreate:
			return t.recreate(ctx, pod, target, step.Why)
		case step.Act == podcontrol.Blocked:
			t.executor.options.Observe(t.Owner, Event{Type: Blocked, Pod: pod, Revision: target, Why: step.Why})
			return false, reason.Final(failed("updating", pod, step.Why))
		case step.Act != podcontrol.Start:
			changed, err = t.do(ctx, pod, step, target, false)
		default:
			changed, err = t.start(ctx, pod, step, target)
		}
		if err == nil {
			t.executor.fanout.Backoff.Succeeded(pod.UID, attempt.Task)
		}
		if !errors.Is(err, podwrite.Refused) {
			return changed, err
		}
		// The API server, a quota or a webhook refuses the update. Another attempt at the same update would take the
		// Pod out of service and fail again.
		wait, refusal = t.executor.fanout.Backoff.Refused(attempt, err, t.Now), err
	}
	t.Pass.Wake(wait)
	if t.rules.Policy == podcontrol.InPlaceOnly {
		return changed, refusal
	}
	return t.recreate(ctx, pod, target, reason.From(refusal))
}

// start sends the first patches of an in-place update.
func (t *Turn[O]) start(ctx context.Context, pod *corev1.Pod, step podcontrol.Step, target string) (changed bool, err error) {
	done, ok := t.executor.takeNewest(ctx, pod)
	if !ok {
		t.Pass.Wake(busyRetry)
		return false, nil
	}
	defer done()
	if changed, err = t.do(ctx, pod, step, target, false); errors.Is(err, errWithheld) {
		return false, err
	} else if err != nil {
		t.executor.options.Observe(t.Owner, Event{Type: StartFailed, Pod: pod, Revision: target, Err: err})
		return changed, err
	}
	if changed {
		t.executor.options.Observe(t.Owner, Event{Type: Started, Pod: pod, Revision: target})
	}
	return changed, nil
}

// recreate deletes a Pod that was chosen within the budget. The next reconcile of the owner creates the replacement.
func (t *Turn[O]) recreate(ctx context.Context, pod *corev1.Pod, target string, why reason.List) (changed bool, err error) {
	if wait, err := t.executor.fanout.Backoff.Resting(deletionOf(pod), t.Now); err != nil {
		t.Pass.Wake(wait)
		return false, err
	}
	step, err := t.executor.control.Recreate(pod, t.rules, why, t.Now)
	if err != nil {
		return false, reason.Final(err)
	}
	if changed, err = t.do(ctx, pod, step, target, true); errors.Is(err, errWithheld) {
		return false, err
	} else if err != nil {
		t.executor.options.Observe(t.Owner, Event{Type: RecreateFailed, Pod: pod, Revision: target, Why: why, Err: err})
		return changed, err
	}
	if changed {
		if len(why) > 0 {
			logr.FromContextOrDiscard(ctx).Info("Pod is recreated, not updated in place", "pod", pod.Name, "reasons", why.String())
		}
		t.executor.options.Observe(t.Owner, Event{Type: Recreated, Pod: pod, Revision: target, Why: why})
	}
	return changed, nil
}

// do sends the requests of a podcontrol.Step. target is the revision to which the step updates the Pod; empty if the
// step is no update. leaves says that the Pod will be deleted.
func (t *Turn[O]) do(ctx context.Context, pod *corev1.Pod, step podcontrol.Step, target string, leaves bool) (changed bool, err error) {
	if step.Act == podcontrol.Delete {
		return t.send(ctx, pod, step, target)
	}
	if step.Act != podcontrol.Patch && step.Act != podcontrol.Start {
		return false, nil
	}
	if err := t.permit(ctx, pod, step, leaves); err != nil {
		return false, err
	}
	return t.patch(ctx, pod, step)
}

// patch merges the changes and sends them. Both the next reconcile of the owner and the loop over single Pods wait
// until the cache shows these patches.
func (t *Turn[O]) patch(ctx context.Context, pod *corev1.Pod, step podcontrol.Step) (changed bool, err error) {
	patches, err := t.executor.options.Merger.Merge(pod, t.executor.options.Clock.Now(), step.Changes...)
	if err != nil {
		return false, reason.Final(err)
	}
	result, err := podwrite.SendPatches(ctx, t.For(pod), patches)
	return result.Sent > 0, err
}

// send deletes the observed version of a Pod, unless the back-off after a refused deletion of the Pod still lasts.
func (t *Turn[O]) send(ctx context.Context, pod *corev1.Pod, step podcontrol.Step, target string) (changed bool, err error) {
	attempt := deletionOf(pod)
	if wait, err := t.executor.fanout.Backoff.Resting(attempt, t.Now); err != nil {
		t.Pass.Wake(wait)
		return false, err
	}
	if err := t.permit(ctx, pod, step, true); err != nil {
		return false, err
	}
	err = t.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	switch {
	case err == nil:
		t.executor.options.Observe(t.Owner, Event{Type: Deleted, Pod: pod, Revision: target})
	case apierrors.IsConflict(err): // a new Pod has the name now; the cache will show the new Pod soon
		return false, failed("deleting", pod, err)
	case !apierrors.IsNotFound(err): // deleted already, perhaps by an earlier request whose response was lost
		t.executor.options.Observe(t.Owner, Event{Type: DeleteFailed, Pod: pod, Revision: target, Err: err})
		if podwrite.IsLasting(err) {
			err = reason.Reason{Code: DeletionRefused, Object: reason.ObjectOf("Pod", pod), Detail: err.Error()}.With(err)
			t.Pass.Wake(t.executor.fanout.Backoff.Refused(attempt, err, t.Now))
			return false, err
		}
		return false, failed("deleting", pod, err)
	}
	if t.executor.options.AfterDelete == nil {
		return true, nil
	}
	return true, t.executor.options.AfterDelete(ctx, t, pod)
}

// Unfinished names the Pods of the Set for which a write of the loop over single Pods was refused or has failed:
// opening the gate of a new Pod, or a write in the middle of an update (a later batch, the end of a grace period, or
// the last of several patches). The loop retries these writes. The loop does not change unreadable Pods. Unfinished
// also names the unreadable Pods, except Pods in service at the update revision. If the rules are invalid, the loop
// changes no Pod, and Unfinished reports the rules. The error is final. The owner is enqueued when the back-off of a
// Pod is over.
func (t *Turn[O]) Unfinished() error {
	if err := t.executor.control.Validate(t.rules); err != nil {
		return reason.Final(err)
	}
	var errs []error
	some := t.executor.fanout.Backoff.Len() > 0
	active := t.active()
	for i := range active {
		pod := &active[i]
		switch {
		// no write to an unreadable Pod is tried, so earlier refusals of such writes are not reported
		case pod.Unreadable != nil:
			if pod.Updating || !pod.Ready || !pod.Updated {
				errs = append(errs, pod.Unreadable)
			}
		case some:
			t.Pass.Wake(t.executor.left(pod)) // the owner is enqueued when the Pod may be tried again
			if err := t.heldUp(pod); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return reason.Final(errors.Join(errs...))
}

// active returns the active Pods of the Set.
func (t *Turn[O]) active() []podcontrol.Pod {
	if t.Set == nil {
		return nil
	}
	return t.Set.Active
}

// heldUp returns the reason why the loop over single Pods does not change the Pod now.
func (t *Turn[O]) heldUp(pod *podcontrol.Pod) error {
	attempts := []fanout.Attempt{t.executor.finishOf(pod.Pod, t.Owner), failureOf(pod.Pod), updateOf(pod.Pod, pod.Revision)}
	if !pod.Updating { // a refused update has not begun, and the owner's reconcile reports the refusal
		attempts = attempts[:2]
	}
	for _, attempt := range attempts {
		if _, err := t.executor.fanout.Backoff.Resting(attempt, t.Now); err != nil {
			return err
		}
	}
	return nil
}

func updateOf(pod *corev1.Pod, target string) fanout.Attempt {
	return fanout.Attempt{Object: pod.UID, Task: updateTask(), Target: revision.ShortName(target)}
}

func deletionOf(pod *corev1.Pod) fanout.Attempt {
	return fanout.Attempt{Object: pod.UID, Task: restingTask(deleteName)}
}

// finishOf describes the attempt at finishing a Pod's update in the loop over single Pods. If the Pod or its owner's
// spec has changed, a new attempt is made at once.
func (x *Executor[O]) finishOf(pod *corev1.Pod, owner O) fanout.Attempt {
	return fanout.Attempt{
		Object: pod.UID, Task: restingTask(finishName),
		Target: fmt.Sprintf("%s/%s/%d", revision.ShortName(x.control.RevisionOf(pod)), x.control.StateOf(pod), owner.GetGeneration()),
	}
}

// conflictOf describes the attempt at a write that requires the present version of the Pod.
func conflictOf(pod *corev1.Pod) fanout.Attempt {
	return fanout.Attempt{Object: pod.UID, Task: restingTask(versionName), Target: pod.ResourceVersion}
}
