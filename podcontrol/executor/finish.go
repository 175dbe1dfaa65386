package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// AddTo adds the second loop, over single Pods, to the manager.
func (x *Executor[O]) AddTo(mgr manager.Manager, name string, options ownercache.ControllerOptions) error {
	return x.cache.AddPodController(mgr, name, x, x.isUnfinished, options)
}

// isUnfinished reports whether the Pod must be reconciled after a change of the owner's spec, because the change may
// end a wait: the Pod is being updated, waits for a hook, or is not ready. For example, a new Pod's gate stays closed
// while the owner's rules are invalid.
func (x *Executor[O]) isUnfinished(pod *corev1.Pod) bool {
	state := x.control.StateOf(pod)
	return state != "" && state != lifecycle.Normal || x.control.IsUpdating(pod) || !podstate.IsReady(pod)
}

// Reconcile takes those actions for a Pod that need no budget. All writes carry the resourceVersion of the observed
// Pod: a conflict means that the Pod has changed, and the event of the change will enqueue the Pod again.
func (x *Executor[O]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod, ok := x.cache.Pods.Get(req.Namespace, req.Name)
	if !ok || !podstate.IsActive(pod) {
		return ctrl.Result{}, nil
	}
	done, ok := x.take(pod.UID)
	if !ok {
		return ctrl.Result{RequeueAfter: busyRetry}, nil
	}
	defer done()
	if wait, _ := x.fanout.Backoff.Resting(failureOf(pod), x.options.Clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	view, result, err := x.cache.ObservePod(ctx, req)
	switch {
	case err != nil:
		return x.later(ctx, pod, err), nil
	case view == nil || !podstate.IsActive(view.Pod) || view.Pod.UID != pod.UID:
		return result, nil
	}
	rules := x.options.Rules(view.Owner)
	if x.control.Validate(rules) != nil {
		x.over(view, failureOf(pod).Task)
		// The owner's loop reports invalid rules, and a change of the owner's spec enqueues the Pod.
		return ctrl.Result{}, nil
	}
	step, err := x.next(view, rules)
	if err != nil {
		// No further request is sent until somebody repairs the Pod. An event of the Pod will announce the repair.
		x.over(view, failureOf(pod).Task)
		x.options.Observe(view.Owner, Event{Type: Unreadable, Pod: view.Pod, Err: err})
		return ctrl.Result{}, nil
	}
	if result, err = x.finish(ctx, view, step); err != nil {
		x.cache.Wake(view.Owner) // the owner's loop reports the failure
		return x.later(ctx, pod, err), nil
	}
	x.over(view, failureOf(pod).Task)
	return result, nil
}

// next returns the Pod's next step. If the recorded state of an update is lost, the update begins again.
func (x *Executor[O]) next(view *ownercache.PodView[O], rules podcontrol.Rules) (podcontrol.Step, error) {
	pod := view.Pod
	lost := x.lost(pod)
	if lost == nil {
		return x.control.Next(pod, rules, view.Now)
	}
	step, err := x.control.Redo(pod, rules, x.options.Template(view.Owner, x.control.RevisionOf(pod)), view.Now)
	if err != nil {
		return step, errors.Join(lost, err)
	}
	step.Why = reason.From(lost)
	return step, nil
}

// lost returns an error if the recorded state of the Pod's update is lost and the update can begin again.
func (x *Executor[O]) lost(pod *corev1.Pod) error {
	if x.options.Template == nil {
		return nil
	}
	return x.control.Lost(pod)
}

// over removes the record of a failed attempt at a Pod, and enqueues the owner. The owner's status still reports the
// failure, and no other event would make the owner's loop correct the status.
func (x *Executor[O]) over(view *ownercache.PodView[O], task fanout.Task) {
	if x.fanout.Backoff.WasRefused(view.Pod.UID, task) {
		x.fanout.Backoff.Succeeded(view.Pod.UID, task)
		x.cache.Wake(view.Owner)
	}
}

// finish sends the step's patch. The returned error is the error of a request that failed without a refusal.
func (x *Executor[O]) finish(ctx context.Context, view *ownercache.PodView[O], step podcontrol.Step) (ctrl.Result, error) {
	pod := view.Pod
	patches, err := x.options.Merger.Merge(pod, x.options.Clock.Now(), step.Changes...)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("finishing Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if patches.IsEmpty() {
		x.over(view, restingTask(finishName))
		return ctrl.Result{RequeueAfter: step.RequeueAfter}, nil
	}
	attempt, now := x.finishOf(pod, view.Owner), x.options.Clock.Now()
	if wait, _ := x.fanout.Backoff.Resting(attempt, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // events of the Pod must not trigger the next attempt
	}
	_, err = podwrite.SendPatches(ctx, view.Client, patches)
	switch {
	case apierrors.IsConflict(err), errors.Is(err, podwrite.Replaced):
		logr.FromContextOrDiscard(ctx).V(5).Info("Pod has changed meanwhile", "pod", client.ObjectKeyFromObject(pod))
		// The event of the newer Pod enqueues the Pod again, unless the conflict came from an admission plugin.
		return ctrl.Result{RequeueAfter: x.fanout.Backoff.Refused(conflictOf(pod), err, now)}, nil
	case errors.Is(err, podwrite.Refused):
		wait := x.fanout.Backoff.Refused(attempt, err, now)
		x.options.Observe(view.Owner, Event{Type: FinishFailed, Pod: pod, Err: err})
		x.cache.Wake(view.Owner)
		// The error is nil, because the refusal is reported already, and an immediate retry would fail again.
		return ctrl.Result{RequeueAfter: wait}, nil
	case err == nil:
		if step.Act == podcontrol.Start {
			x.options.Observe(view.Owner, Event{Type: Restarted, Pod: pod, Revision: x.control.RevisionOf(pod), Why: step.Why})
		}
		x.fanout.Backoff.Succeeded(pod.UID, attempt.Task)
		x.fanout.Backoff.Succeeded(pod.UID, conflictOf(pod).Task)
		return ctrl.Result{RequeueAfter: step.RequeueAfter}, nil
	}
	return ctrl.Result{}, err
}

// later schedules the retry of a request that failed without a refusal. The Pod may be out of service: the queue's own
// back-off grows to a quarter of an hour, and would keep the Pod out of service long after a failing webhook has
// recovered.
func (x *Executor[O]) later(ctx context.Context, pod *corev1.Pod, err error) ctrl.Result {
	wait := x.fanout.Backoff.Refused(failureOf(pod), err, x.options.Clock.Now())
	logr.FromContextOrDiscard(ctx).Error(err, "Finishing the update of a Pod failed and will be tried again", "pod", client.ObjectKeyFromObject(pod), "after", wait)
	return ctrl.Result{RequeueAfter: wait}
}

// failureOf describes the attempt at finishing an update whose request failed without being refused.
func failureOf(pod *corev1.Pod) fanout.Attempt {
	return fanout.Attempt{Object: pod.UID, Task: fanout.Task{Name: "go on with the Pod", First: time.Second, Last: 30 * time.Second}}
}
