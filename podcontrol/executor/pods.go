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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// busyRetry is the time until another look at a Pod in work by the other loop. After a start failed in the middle
// nothing else brings the Pod's own loop back, and the Pod is out of service.
const busyRetry = 100 * time.Millisecond

// Pods carries out an owner's decisions about its Pods. Make Pods with Executor.For, for each pass. Pods is safe for
// concurrent use.
type Pods[O client.Object] struct {
	executor *Executor[O]

	view  *ownercache.View[O]
	pass  *fanout.Pass
	rules podcontrol.Rules
	waits waits
}

// For returns the Pods of a view.
func (x *Executor[O]) For(view *ownercache.View[O], pass *fanout.Pass) *Pods[O] {
	return &Pods[O]{executor: x, view: view, pass: pass, rules: x.options.Rules(view.Owner)}
}

// Create creates a Pod of the owner. A webhook or policy can make a Pod a stranger by taking its owner reference, a
// label of the selector or the revision label. Create deletes such a Pod again: the Pod would not be counted, and so be
// made once more in every pass. A nil selector asks for no label, as in podcontrol.Want. Create refuses a Pod that does
// not belong to the owner from the start (UnusablePod), and creates none for an owner being deleted (OwnerDeleting), or
// by rules by which nobody would open the Pod's gate (podcontrol.InvalidRules).
func (p *Pods[O]) Create(ctx context.Context, pod *corev1.Pod, selector labels.Selector) error {
	return p.create(ctx, pod, selector, "")
}

// create is Create for a Pod of a Node, or of any Node if node is empty.
func (p *Pods[O]) create(ctx context.Context, pod *corev1.Pod, selector labels.Selector, node string) error {
	if p.view.Owner.GetDeletionTimestamp() != nil {
		return reason.Reason{Code: OwnerDeleting, Object: reason.ObjectOf("Pod", pod), Detail: "its owner is being deleted"}
	}
	if err := p.executor.control.Validate(p.rules); err != nil {
		return reason.Final(err)
	}
	if what := p.lacks(pod, selector, node); what != "" {
		return reason.Reason{
			Code: UnusablePod, Object: reason.ObjectOf("Pod", pod), Detail: "it was made without its " + what,
			Remedy: "see to the template, or to what prepares the Pod",
		}
	}
	revision := p.executor.control.RevisionOf(pod)
	if err := p.view.Client.Create(ctx, pod); err != nil {
		return err
	}
	what := p.lacks(pod, selector, node)
	if what == "" && p.executor.control.RevisionOf(pod) != revision {
		what = "revision label" // the Pod would look outdated and be recreated
	}
	if what == "" {
		p.executor.options.Observe(p.view.Owner, Event{Type: Created, Pod: pod})
		return nil
	}
	err := p.view.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	return errors.Join(fmt.Errorf("its %s did not survive the API server's admission plugins", what), client.IgnoreNotFound(err))
}

// lacks says why a Pod does not belong to the owner, or is not on its Node; empty for a right Pod.
func (p *Pods[O]) lacks(pod *corev1.Pod, selector labels.Selector, node string) string {
	at, _ := nodefit.NodeOf(pod)
	switch {
	case node != "" && at != node:
		return "place on Node " + node
	case !metav1.IsControlledBy(pod, p.view.Owner):
		return "owner reference"
	case selector != nil && !selector.Matches(labels.Set(pod.Labels)):
		return "labels that the selector asks for"
	}
	return ""
}

// Delete deletes a Pod, or has the Pod wait for its hook. changed reports any change.
func (p *Pods[O]) Delete(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	step, err := p.executor.control.Delete(pod, p.rules, p.view.Now)
	if err != nil {
		return false, reason.Final(err)
	}
	return unlessWithheld(p.do(ctx, pod, step, "", true))
}

// Cancel takes a Pod back from waiting for its hook before a deletion or update, because the Pod is wanted unchanged.
// changed reports any change.
func (p *Pods[O]) Cancel(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	step, err := p.executor.control.Cancel(pod, p.rules, p.view.Now)
	if err != nil {
		return false, reason.Final(err)
	}
	return unlessWithheld(p.do(ctx, pod, step, "", false))
}

// Settle takes a Pod back from waiting for its hook before a no longer wanted update, and from no other wait. changed
// reports any change.
func (p *Pods[O]) Settle(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	step, err := p.executor.control.Settle(pod, p.rules, p.view.Now)
	if err != nil {
		return false, reason.Final(err)
	}
	return unlessWithheld(p.do(ctx, pod, step, "", false))
}

// UpdateTo returns a function that takes a Pod to a revision: in place, or by its deletion, as the rules say. plan
// returns the plan for a Pod. UpdateTo does not call plan if the rules recreate Pods.
func (p *Pods[O]) UpdateTo(
	target *appsv1.ControllerRevision, plan func(*corev1.Pod) *inplaceupdate.Plan,
) func(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	return func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		if p.rules.Policy.Recreates() {
			return unlessWithheld(p.recreate(ctx, pod, target.Name, nil))
		}
		return unlessWithheld(p.update(ctx, pod, plan(pod), target.Name))
	}
}

func (p *Pods[O]) update(ctx context.Context, pod *corev1.Pod, plan *inplaceupdate.Plan, target string) (changed bool, err error) {
	attempt := updateOf(pod, target)
	wait, refusal := p.executor.fanout.Backoff.Resting(attempt, p.view.Now)
	if lost := p.executor.lost(pod) != nil; lost && plan.Possible() {
		p.pass.Wake(busyRetry) // the plan does not know the lost changes; the Pod's own loop begins them anew
		return false, nil
	}
	if refusal == nil || !plan.Possible() {
		step, err := p.executor.control.Update(pod, p.rules, plan, target, p.view.Now)
		switch {
		case err != nil:
			return false, reason.Final(err)
		case step.Recreate:
			return p.recreate(ctx, pod, target, step.Why)
		case step.Act == podcontrol.Blocked:
			p.executor.options.Observe(p.view.Owner, Event{Type: Blocked, Pod: pod, Revision: target, Why: step.Why})
			return false, reason.Final(failed("updating", pod, step.Why))
		case step.Act != podcontrol.Start:
			changed, err = p.do(ctx, pod, step, target, false)
		default:
			changed, err = p.start(ctx, pod, step, target)
		}
		if err == nil {
			p.executor.fanout.Backoff.Succeeded(pod.UID, attempt.Task)
		}
		if !errors.Is(err, podwrite.Refused) {
			return changed, err
		}
		// The API server, a quota or a webhook refuses the Pod. Another attempt at the same update would take the Pod out of
		// service in vain.
		wait, refusal = p.executor.fanout.Backoff.Refused(attempt, err, p.view.Now), err
	}
	p.pass.Wake(wait)
	if p.rules.Policy == podcontrol.InPlaceOnly {
		return changed, refusal
	}
	return p.recreate(ctx, pod, target, reason.From(refusal))
}

// start sends the first writes of an update in place.
func (p *Pods[O]) start(ctx context.Context, pod *corev1.Pod, step podcontrol.Step, target string) (changed bool, err error) {
	done, ok := p.executor.takeNewest(ctx, pod)
	if !ok {
		p.pass.Wake(busyRetry)
		return false, nil
	}
	defer done()
	if changed, err = p.do(ctx, pod, step, target, false); errors.Is(err, errWithheld) {
		return false, err
	} else if err != nil {
		p.executor.options.Observe(p.view.Owner, Event{Type: StartFailed, Pod: pod, Revision: target, Err: err})
		return changed, err
	}
	p.executor.options.Observe(p.view.Owner, Event{Type: Started, Pod: pod, Revision: target})
	return true, nil
}

// recreate deletes the Pod within the budget that chose the Pod. The next pass creates its successor.
func (p *Pods[O]) recreate(ctx context.Context, pod *corev1.Pod, target string, why reason.List) (changed bool, err error) {
	if wait, err := p.executor.fanout.Backoff.Resting(deletionOf(pod), p.view.Now); err != nil {
		p.pass.Wake(wait)
		return false, err
	}
	step, err := p.executor.control.Recreate(pod, p.rules, why, p.view.Now)
	if err != nil {
		return false, reason.Final(err)
	}
	if changed, err = p.do(ctx, pod, step, target, true); errors.Is(err, errWithheld) {
		return false, err
	} else if err != nil {
		p.executor.options.Observe(p.view.Owner, Event{Type: RecreateFailed, Pod: pod, Revision: target, Why: why, Err: err})
		return changed, err
	}
	if changed {
		if len(why) > 0 {
			logr.FromContextOrDiscard(ctx).Info("Pod is recreated, not updated in place", "pod", pod.Name, "reasons", why.String())
		}
		p.executor.options.Observe(p.view.Owner, Event{Type: Recreated, Pod: pod, Revision: target, Why: why})
	}
	return changed, nil
}

// do sends a step. target is the revision of the step's update, empty for none. leaves says that the Pod is to be
// deleted in the end.
func (p *Pods[O]) do(ctx context.Context, pod *corev1.Pod, step podcontrol.Step, target string, leaves bool) (changed bool, err error) {
	if step.Act == podcontrol.Delete {
		return p.remove(ctx, pod, step, target)
	}
	if step.Act != podcontrol.Patch && step.Act != podcontrol.Start {
		return false, nil
	}
	if err := p.permit(ctx, pod, step, leaves); err != nil {
		return false, err
	}
	return p.patch(ctx, pod, step)
}

// patch merges the changes and sends them. The owner waits for the writes before its next decision, and so does the
// Pod's own loop before its next look at the Pod.
func (p *Pods[O]) patch(ctx context.Context, pod *corev1.Pod, step podcontrol.Step) (changed bool, err error) {
	patches, err := p.executor.options.Merger.Merge(pod, p.executor.options.Clock.Now(), step.Changes...)
	if err != nil {
		return false, reason.Final(err)
	}
	result, err := podwrite.SendPatches(ctx, p.view.For(pod), patches)
	return result.Sent > 0, err
}

// remove deletes the Pod of the decision, unless a deletion was refused a moment ago.
func (p *Pods[O]) remove(ctx context.Context, pod *corev1.Pod, step podcontrol.Step, target string) (changed bool, err error) {
	attempt := deletionOf(pod)
	if wait, err := p.executor.fanout.Backoff.Resting(attempt, p.view.Now); err != nil {
		p.pass.Wake(wait)
		return false, err
	}
	if err := p.permit(ctx, pod, step, true); err != nil {
		return false, err
	}
	err = p.view.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	switch {
	case err == nil:
		p.executor.options.Observe(p.view.Owner, Event{Type: Deleted, Pod: pod, Revision: target})
	case apierrors.IsConflict(err): // another Pod has the name by now, as the cache will show
		return false, failed("deleting", pod, err)
	case !apierrors.IsNotFound(err): // gone, perhaps by an own request with a lost answer
		p.executor.options.Observe(p.view.Owner, Event{Type: DeleteFailed, Pod: pod, Revision: target, Err: err})
		if podwrite.IsLasting(err) {
			err = reason.Reason{Code: DeletionRefused, Object: reason.ObjectOf("Pod", pod), Detail: err.Error()}.With(err)
			p.pass.Wake(p.executor.fanout.Backoff.Refused(attempt, err, p.view.Now))
			return false, err
		}
		return false, failed("deleting", pod, err)
	}
	if p.executor.options.AfterDelete == nil {
		return true, nil
	}
	return true, p.executor.options.AfterDelete(ctx, p.view, pod)
}

// Unfinished names the Pods for which a write of their own loop was refused, or failed: opening the gate of a new Pod,
// or a write in the middle of an update, at a later batch, at the end of a grace period, or the last of several. The
// loop tries again. The loop leaves unreadable Pods alone. Unfinished names unreadable Pods too, unless they serve at
// the update revision, and invalid rules, by which the loop does nothing. The error is final. The owner is woken when a
// Pod's rest is over.
func (p *Pods[O]) Unfinished(set *podcontrol.Set) error {
	if err := p.executor.control.Validate(p.rules); err != nil {
		return reason.Final(err)
	}
	var errs []error
	some := p.executor.fanout.Backoff.Len() > 0
	for i := range set.Active {
		pod := &set.Active[i]
		if some && pod.Unreadable == nil {
			p.pass.Wake(p.executor.left(pod)) // the Pod's turn may come then
		}
		var err error
		if some {
			err = p.heldUp(pod)
		}
		if err == nil && (pod.Updating || !pod.Ready || !pod.Updated) {
			err = pod.Unreadable
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return reason.Final(errors.Join(errs...))
}

// heldUp returns why the Pod's own loop leaves the Pod alone for now.
func (p *Pods[O]) heldUp(pod *podcontrol.Pod) error {
	attempts := []fanout.Attempt{p.executor.finishOf(pod.Pod, p.view.Owner), failureOf(pod.Pod), updateOf(pod.Pod, pod.Revision)}
	if !pod.Updating { // a refused update has not begun, and the pass that chooses the Pod reports the refusal
		attempts = attempts[:2]
	}
	for _, attempt := range attempts {
		if _, err := p.executor.fanout.Backoff.Resting(attempt, p.view.Now); err != nil {
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

// finishOf is the attempt of the Pod's own loop. If the Pod has moved on, or its owner has a new spec, the attempt is
// another.
func (x *Executor[O]) finishOf(pod *corev1.Pod, owner O) fanout.Attempt {
	return fanout.Attempt{
		Object: pod.UID, Task: restingTask(finishName),
		Target: fmt.Sprintf("%s/%s/%d", revision.ShortName(x.control.RevisionOf(pod)), x.control.StateOf(pod), owner.GetGeneration()),
	}
}

// conflictOf is a write that demands the present Pod.
func conflictOf(pod *corev1.Pod) fanout.Attempt {
	return fanout.Attempt{Object: pod.UID, Task: restingTask(versionName), Target: pod.ResourceVersion}
}
