package cloneset

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podcontrol"
)

// lookAgain is the wait before the next reconciliation if another client has changed the CloneSet, or if no event
// will enqueue the CloneSet.
const lookAgain = 100 * time.Millisecond

// report writes the status, deletes revisions beyond the history limit, and returns when to reconcile again.
func (r *Reconciler) report(ctx context.Context, t *turn, o *observation, d *todo, scaleErr, updateErr error) (ctrl.Result, error) {
	status, wake := nextStatus(o, d, metav1.NewTime(t.Now), scaleErr, updateErr)
	t.Pass.Wake(wake)
	t.Pass.Wake(o.pods.NextAvailable)
	acted := t.Pass.Changed()
	truncateErr := r.TruncateHistory(ctx, t, o.settings.historyLimit, status.CurrentRevision)
	version, err := t.WriteStatus(ctx, status)
	if err == nil && !acted {
		err = t.Pass.Once(ctx, fanout.Task{Name: "remove names from podsToDelete"}, func() (bool, error) { return r.dropNames(ctx, t, o, version) })
		// The cache is stale, and the update event that brings the newer version may not enqueue the CloneSet.
		if apierrors.IsConflict(err) {
			t.Pass.Wake(lookAgain)
			err = nil
		}
	}
	return t.Pass.Result(scaleErr, updateErr, truncateErr, err)
}

// nextStatus returns the new status, and the time until a deadline changes the status; zero means never.
func nextStatus(o *observation, t *todo, now metav1.Time, scaleErr, updateErr error) (v1beta1.CloneSetStatus, time.Duration) {
	pods := o.pods.Totals()
	status := v1beta1.CloneSetStatus{
		ObservedGeneration: o.cs.Generation, UpdateRevision: o.update.Name, CurrentRevision: o.current.Name, CollisionCount: o.history.Collisions,
		Replicas: pods.Pods, ReadyReplicas: pods.Ready, AvailableReplicas: pods.Available,
		UpdatedReplicas: pods.Updated, UpdatedReadyReplicas: pods.UpdatedReady, UpdatedAvailableReplicas: pods.UpdatedAvailable,
		ExpectedUpdatedReplicas: int32(o.settings.rollout.Replicas - o.settings.rollout.Partition),
		LabelSelector:           o.settings.selector.String(), Conditions: slices.Clone(o.cs.Status.Conditions),
	}
	status.Conditions.SetFailure(apps.ConditionFailedScale, scaleErr, now)
	status.Conditions.SetFailure(apps.ConditionFailedUpdate, updateErr, now)
	status.Conditions.Drop(apps.ConditionInvalidSpec)
	status.Conditions.SetFailure(apps.ConditionWaiting, t.waits.Err(), now)
	status.Conditions.SetFailure(apps.ConditionOddSpec, o.settings.warnings.Err(), now)
	t.restart.Report(&status.Conditions, now)
	return status, setProgress(o, &status, now)
}

// setProgress updates the Progressing condition. Unlike in OpenKruise, the deadline restarts with a new update
// revision, and whenever a Pod becomes available at the update revision. Either event also sets the condition to True
// again after the deadline was exceeded.
func setProgress(o *observation, status *v1beta1.CloneSetStatus, now metav1.Time) (wake time.Duration) {
	deadline := o.settings.progressDeadline
	if deadline == nil {
		status.Conditions.Drop(apps.ConditionProgressing)
		return 0
	}
	c := v1beta1.Condition{Type: apps.ConditionProgressing, Status: corev1.ConditionTrue, LastUpdateTime: now}
	was := &o.cs.Status
	progressed := status.UpdateRevision != was.UpdateRevision || status.UpdatedAvailableReplicas > was.UpdatedAvailableReplicas
	switch {
	case status.CurrentRevision == status.UpdateRevision && o.isOver() && status.Replicas == status.UpdatedAvailableReplicas:
		c.Reason, c.Message = apps.ReasonProgressAvailable, "all Pods are at revision "+status.UpdateRevision+" and available"
	case o.settings.paused:
		c.Reason, c.Message = apps.ReasonProgressPaused, "the rollout is paused"
	case o.settings.rollout.Partition > 0 && status.ExpectedUpdatedReplicas < status.Replicas && status.ExpectedUpdatedReplicas <= status.UpdatedAvailableReplicas:
		c.Reason, c.Message = apps.ReasonProgressPartitionAvailable, fmt.Sprintf("%d Pods are at revision %s and available, as many as the partition lets", status.UpdatedAvailableReplicas, status.UpdateRevision)
	default:
		c.Reason, c.Message = apps.ReasonProgressUpdated, "rolling out revision "+status.UpdateRevision
		wake = deadlineWake(&c, was.Conditions.Find(apps.ConditionProgressing), *deadline, progressed, now)
	}
	status.Conditions.Set(c, now)
	if set := status.Conditions.Find(apps.ConditionProgressing); progressed && set.Reason == apps.ReasonProgressUpdated {
		set.LastUpdateTime = now
	}
	return wake
}

// deadlineWake sets the condition's reason to ProgressDeadlineExceeded if the deadline has passed, and otherwise
// returns the time until the deadline.
func deadlineWake(c, old *v1beta1.Condition, deadline time.Duration, progressed bool, now metav1.Time) time.Duration {
	if old == nil || progressed || (old.Reason != apps.ReasonProgressUpdated && old.Reason != apps.ReasonProgressDeadlineExceeded) {
		return deadline + time.Second
	}
	left := old.LastUpdateTime.Add(deadline).Sub(now.Time)
	if left > 0 && old.Reason == apps.ReasonProgressUpdated {
		return left + time.Second
	}
	c.Status, c.Reason = corev1.ConditionFalse, apps.ReasonProgressDeadlineExceeded
	c.Message += ": no progress within the deadline"
	return 0
}

// dropNames removes from podsToDelete the names for which no active Pod exists. version is the resourceVersion of the
// CloneSet after the status was written, so only a write by another client leads to a conflict.
func (r *Reconciler) dropNames(ctx context.Context, t *turn, o *observation, version string) (changed bool, err error) {
	names := t.Owner.Spec.ScaleStrategy.PodsToDelete
	keep := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.ContainsFunc(o.pods.Active, func(pod podcontrol.Pod) bool { return pod.Name == name })
	})
	if len(keep) == len(names) {
		return false, nil
	}
	err = t.PatchSpec(ctx, version, map[string]any{"scaleStrategy": map[string]any{"podsToDelete": keep}})
	return err == nil, err
}

// statusOf returns the status, and pointers to the observed generation and the conditions.
func statusOf(cs *v1beta1.CloneSet) (status any, observed *int64, conditions *v1beta1.Conditions) {
	return cs.Status, &cs.Status.ObservedGeneration, &cs.Status.Conditions
}
