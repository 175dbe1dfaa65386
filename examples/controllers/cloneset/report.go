package cloneset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	revisionapply "github.com/workloadkit/workloadkit/revision/apply"
)

// ConditionInvalid is True while the spec holds values that cannot be used; its reason is the first code and its message
// names paths and values. No Pod is touched meanwhile.
const ConditionInvalid v1beta1.CloneSetConditionType = "InvalidSpec"

// ConditionOdd is True while the spec holds values that are read in a way that their writer may not have meant; its reason is
// the first code and its message names paths, values and how they are read.
const ConditionOdd v1beta1.CloneSetConditionType = "OddSpec"

// conflictRetry is when to look again after somebody else has changed the CloneSet.
const conflictRetry = 100 * time.Millisecond

// report writes status and history and says when to look again.
func (r *Reconciler) report(ctx context.Context, v *view, out outcome) (ctrl.Result, error) {
	out.scaleErr = errors.Join(out.releaseErr, out.scaleErr)
	if r.client.InDoubt(v.cs.UID) {
		v.wake.in(conflictRetry) // a name that was taken holds the pass up without an error
	}
	status := nextStatus(v, out)
	truncateErr := r.attempt(ctx, v, tryTruncate, func() error { return r.truncate(ctx, v, status) })
	version, err := r.writeStatus(ctx, v.cs, status)
	if err == nil && !out.acted {
		err = r.attempt(ctx, v, tryNames, func() error { return r.dropNames(ctx, v, version) })
		if apierrors.IsConflict(err) { // the cache is behind, and the event that brings it forward need not wake anybody
			v.wake.in(conflictRetry)
			err = nil
		}
	}
	if errors.Is(out.updateErr, podwrite.Refused) {
		v.wake.in(refusalRetry) // whoever lifts the refusal does not wake the controller
	}
	return ctrl.Result{RequeueAfter: v.wake.get()}, retryable(out.scaleErr, out.updateErr, truncateErr, err)
}

// stop reports that a pass could not even begin.
func (r *Reconciler) stop(ctx context.Context, v *view, err error) (ctrl.Result, error) {
	if worthTrying(err) {
		return ctrl.Result{}, err
	}
	status := *v.cs.Status.DeepCopy()
	status.ObservedGeneration = v.cs.Generation
	dropCondition(&status, ConditionInvalid)
	setFailure(&status, apps.ConditionFailedUpdate, err, metav1.NewTime(v.now))
	_, err = r.writeStatus(ctx, v.cs, status)
	return ctrl.Result{RequeueAfter: v.wake.get()}, err
}

// nextStatus computes the status, and wakes the view when the progress deadline ends.
func nextStatus(v *view, out outcome) v1beta1.CloneSetStatus {
	status := v1beta1.CloneSetStatus{
		ObservedGeneration:      v.cs.Generation,
		Replicas:                int32(len(v.members)),
		UpdateRevision:          v.update.Name,
		CurrentRevision:         v.current.Name,
		CollisionCount:          out.collisions,
		LabelSelector:           v.selector.String(),
		ExpectedUpdatedReplicas: int32(v.rollout.Replicas - v.rollout.Partition),
		Conditions:              slices.Clone(v.cs.Status.Conditions),
	}
	for i := range v.members {
		m := &v.members[i]
		count(&status.ReadyReplicas, m.ready)
		count(&status.AvailableReplicas, m.available)
		count(&status.UpdatedReplicas, m.updated)
		count(&status.UpdatedReadyReplicas, m.updated && m.ready)
		count(&status.UpdatedAvailableReplicas, m.updated && m.available)
	}
	if status.UpdatedReplicas == status.Replicas && int(status.Replicas) == v.rollout.Replicas {
		status.CurrentRevision = status.UpdateRevision
	}
	now := metav1.NewTime(v.now)
	setFailure(&status, apps.ConditionFailedScale, out.scaleErr, now)
	setFailure(&status, apps.ConditionFailedUpdate, out.updateErr, now)
	dropCondition(&status, ConditionInvalid)
	setFailure(&status, ConditionOdd, v.warnings.Err(), now)
	v.wake.in(setProgress(v, &status, now))
	return status
}

func count(n *int32, yes bool) {
	if yes {
		*n++
	}
}

// setFailure sets a condition while its error lasts and removes it afterwards; the message follows the error
// (upstream never clears it).
func setFailure(status *v1beta1.CloneSetStatus, t v1beta1.CloneSetConditionType, err error, now metav1.Time) {
	if err == nil {
		dropCondition(status, t)
		return
	}
	why := ""
	message := err.Error()
	if list := reason.From(err); len(list) > 0 {
		why, message = string(list[0].Code), list.Summary(reasonsInEvent)
	}
	setCondition(status, v1beta1.CloneSetCondition{Type: t, Status: corev1.ConditionTrue, Reason: why, Message: reason.Shorten(message, 1024)}, now)
}

func dropCondition(status *v1beta1.CloneSetStatus, t v1beta1.CloneSetConditionType) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c v1beta1.CloneSetCondition) bool { return c.Type == t })
}

// setCondition replaces a condition where status or reason change, and refreshes its message otherwise.
func setCondition(status *v1beta1.CloneSetStatus, c v1beta1.CloneSetCondition, now metav1.Time) {
	c.LastUpdateTime, c.LastTransitionTime = now, now
	for i := range status.Conditions {
		old := &status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
			if old.Reason == c.Reason {
				c.LastUpdateTime = old.LastUpdateTime
			}
		}
		*old = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}

func condition(status *v1beta1.CloneSetStatus, t v1beta1.CloneSetConditionType) *v1beta1.CloneSetCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == t {
			return &status.Conditions[i]
		}
	}
	return nil
}

// setProgress keeps the Progressing condition. Unlike upstream a new update revision and every Pod that
// becomes available at it start the clock again, and an exceeded deadline does not outlast them.
func setProgress(v *view, status *v1beta1.CloneSetStatus, now metav1.Time) (wake time.Duration) {
	deadline := v.cs.Spec.ProgressDeadlineSeconds
	if deadline == nil || *deadline == math.MaxInt32 {
		dropCondition(status, apps.ConditionProgressing)
		return 0
	}
	seconds := max(*deadline, 0)
	c := v1beta1.CloneSetCondition{Type: apps.ConditionProgressing, Status: corev1.ConditionTrue}
	old := condition(&v.cs.Status, apps.ConditionProgressing)
	progressed := status.UpdateRevision != v.cs.Status.UpdateRevision || status.UpdatedAvailableReplicas > v.cs.Status.UpdatedAvailableReplicas
	switch {
	case status.CurrentRevision == status.UpdateRevision && status.Replicas == status.UpdatedReplicas &&
		status.Replicas == status.UpdatedAvailableReplicas && int(status.Replicas) == v.rollout.Replicas:
		c.Reason, c.Message = apps.ReasonProgressAvailable, "all Pods are at revision "+status.UpdateRevision+" and available"
	case v.paused:
		c.Reason, c.Message = apps.ReasonProgressPaused, "the rollout is paused"
	case v.rollout.Partition > 0 && status.ExpectedUpdatedReplicas < status.Replicas && status.ExpectedUpdatedReplicas <= status.UpdatedAvailableReplicas:
		c.Reason, c.Message = apps.ReasonProgressPartitionAvailable, fmt.Sprintf("%d Pods are at revision %s and available, as many as the partition lets", status.UpdatedAvailableReplicas, status.UpdateRevision)
	default:
		c.Reason, c.Message = apps.ReasonProgressUpdated, "rolling out revision "+status.UpdateRevision
		wake = deadlineWake(v, &c, old, time.Duration(seconds)*time.Second, progressed, now)
	}
	setCondition(status, c, now)
	if set := condition(status, apps.ConditionProgressing); progressed && set.Reason == apps.ReasonProgressUpdated {
		set.LastUpdateTime = now
	}
	return wake
}

// deadlineWake turns the condition into the exceeded one where the clock has run out, and otherwise says when it will.
func deadlineWake(v *view, c, old *v1beta1.CloneSetCondition, deadline time.Duration, progressed bool, now metav1.Time) time.Duration {
	if old == nil || progressed || (old.Reason != apps.ReasonProgressUpdated && old.Reason != apps.ReasonProgressDeadlineExceeded) {
		return deadline + time.Second
	}
	left := old.LastUpdateTime.Add(deadline).Sub(now.Time)
	if left > 0 && old.Reason == apps.ReasonProgressUpdated {
		return left + time.Second
	}
	c.Status, c.Reason = corev1.ConditionFalse, apps.ReasonProgressDeadlineExceeded
	c.Message = "revision " + v.update.Name + " has made no progress within the deadline"
	return 0
}

// reportRefusal says what is wrong with the spec and leaves everything else as it is.
func (r *Reconciler) reportRefusal(ctx context.Context, cs *v1beta1.CloneSet, why reason.List) error {
	status := *cs.Status.DeepCopy()
	status.ObservedGeneration = cs.Generation
	message := reason.Shorten(why.Summary(reasonsInEvent), 1024)
	setCondition(&status, v1beta1.CloneSetCondition{
		Type: ConditionInvalid, Status: corev1.ConditionTrue, Reason: string(why[0].Code), Message: message,
	}, metav1.NewTime(r.options.Clock.Now()))
	if !equality.Semantic.DeepEqual(cs.Status, status) {
		r.events.Event(cs, corev1.EventTypeWarning, apps.EventFailedUpdate, message)
	}
	_, err := r.writeStatus(ctx, cs, status)
	return err
}

// writeStatus replaces the status where it differs. A merge patch would not do, because the API server does not look at the
// UID that a patch of a custom resource's status names, so that a successor would get it. version is the newest known one of
// the CloneSet that has the spec of cs: another spec's version must not become a precondition, because it would let a write
// that was decided on this one undo the other.
func (r *Reconciler) writeStatus(ctx context.Context, cs *v1beta1.CloneSet, status v1beta1.CloneSetStatus) (version string, err error) {
	if equality.Semantic.DeepEqual(cs.Status, status) {
		return cs.ResourceVersion, nil
	}
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": cs.UID},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return "", fmt.Errorf("encoding the status of CloneSet %s/%s: %w", cs.Namespace, cs.Name, err)
	}
	changed := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: cs.Namespace, Name: cs.Name}}
	err = r.client.Status().Patch(ctx, changed, client.RawPatch(types.JSONPatchType, body))
	switch {
	case apierrors.IsNotFound(err), isReplaced(err):
		return cs.ResourceVersion, nil
	case err != nil:
		return "", fmt.Errorf("writing the status of CloneSet %s/%s: %w", cs.Namespace, cs.Name, err)
	case changed.Generation != cs.Generation:
		return cs.ResourceVersion, nil
	}
	return changed.ResourceVersion, nil
}

// isReplaced recognises the answer to a JSON patch whose test of the UID failed. The API server names no field then, as it
// does where a value is wrong.
func isReplaced(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && apierrors.IsInvalid(err) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}

// dropNames removes names from podsToDelete that are no active Pods any more. version is the CloneSet's after the
// status was written, so that only another writer's change is a conflict.
func (r *Reconciler) dropNames(ctx context.Context, v *view, version string) error {
	names := v.cs.Spec.ScaleStrategy.PodsToDelete
	if len(names) == 0 {
		return nil
	}
	keep := make([]string, 0, len(names))
	for _, name := range names {
		if i := slices.IndexFunc(v.members, func(m member) bool { return m.pod.Name == name }); i >= 0 {
			keep = append(keep, name)
		}
	}
	if len(keep) == len(names) {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.cs.UID, "resourceVersion": version},
		"spec":     map[string]any{"scaleStrategy": map[string]any{"podsToDelete": keep}},
	})
	if err != nil {
		return fmt.Errorf("encoding podsToDelete of CloneSet %s/%s: %w", v.cs.Namespace, v.cs.Name, err)
	}
	changed := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: v.cs.Namespace, Name: v.cs.Name}}
	if err := r.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing names from podsToDelete of CloneSet %s/%s: %w", v.cs.Namespace, v.cs.Name, err)
	}
	return nil
}

// truncate deletes revisions that nobody needs. It does not depend on the rest of the pass having succeeded.
func (r *Reconciler) truncate(ctx context.Context, v *view, status v1beta1.CloneSetStatus) error {
	if len(v.revisions) <= v.historyLimit+1 {
		return nil
	}
	owned := slices.DeleteFunc(slices.Clone(v.revisions), func(rev *appsv1.ControllerRevision) bool {
		return !metav1.IsControlledBy(rev, v.cs)
	})
	protected := func(rev *appsv1.ControllerRevision) bool {
		return rev.Name == status.UpdateRevision || rev.Name == status.CurrentRevision
	}
	inUse := func(rev *appsv1.ControllerRevision) bool {
		return slices.ContainsFunc(v.members, func(m member) bool {
			return podstate.SameRevision(m.pod.Labels[apps.LabelRevision], rev.Name)
		})
	}
	excess := revision.Truncate(owned, v.historyLimit, revision.CountUnused, protected, inUse)
	if err := revisionapply.Delete(ctx, r.client, excess); err != nil {
		return fmt.Errorf("truncating the history of CloneSet %s/%s: %w", v.cs.Namespace, v.cs.Name, err)
	}
	return nil
}
