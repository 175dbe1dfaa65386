package cloneset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

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
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// ConditionInvalid is True while the spec holds values that cannot be used; its reason is the first code and its message
// names paths and values. No Pod is touched meanwhile.
const ConditionInvalid v1beta1.CloneSetConditionType = "InvalidSpec"

// ConditionOdd is True while the spec holds values that are read in a way that their writer may not have meant; its reason is
// the first code and its message names paths, values and how they are read.
const ConditionOdd v1beta1.CloneSetConditionType = "OddSpec"

const (
	// lookAgain is when to look again after somebody else has changed the CloneSet, or for what no event tells.
	lookAgain = 100 * time.Millisecond
	// refusedAgain is when to look again at updates that were refused: whoever lifts the refusal does not wake the controller.
	refusedAgain = 5 * time.Minute
	// reasonsInEvent is how many reasons an event or condition names.
	reasonsInEvent = 5
)

// report writes status and history and says when to look again.
func (r *Reconciler) report(ctx context.Context, v *view, pass *fanout.Pass, o *observation, scaleErr, updateErr error) (ctrl.Result, error) {
	status, wake := nextStatus(o, v.Now, scaleErr, updateErr)
	pass.Wake(wake)
	pass.Wake(o.pods.NextAvailable)
	acted := pass.Changed()
	truncateErr := r.truncate(ctx, v, pass, o, status.CurrentRevision)
	version, err := v.WriteStatus(ctx, v.Owner.Status, status)
	if err == nil && !acted {
		err = pass.Once(ctx, fanout.Task{Name: "remove names from podsToDelete"}, func() (bool, error) { return r.dropNames(ctx, v, o, version) })
		if apierrors.IsConflict(err) { // the cache is behind, and the event that brings it forward need not wake anybody
			pass.Wake(lookAgain)
			err = nil
		}
	}
	if errors.Is(updateErr, podwrite.Refused) {
		pass.Wake(refusedAgain)
	}
	return pass.Result(scaleErr, updateErr, truncateErr, err)
}

// stop reports that a pass could not even begin, unless trying again may help.
func (r *Reconciler) stop(ctx context.Context, v *view, pass *fanout.Pass, err error) (ctrl.Result, error) {
	if !reason.IsFinal(err) {
		return pass.Result(err)
	}
	status := v.Owner.Status.DeepCopy()
	status.ObservedGeneration = v.Owner.Generation
	dropCondition(status, ConditionInvalid)
	setFailure(status, apps.ConditionFailedUpdate, err, metav1.NewTime(v.Now))
	_, err = v.WriteStatus(ctx, v.Owner.Status, *status)
	return pass.Result(err)
}

// refuse reports a spec that cannot be used, and leaves everything else as it is. The next change of the spec wakes the controller.
func (r *Reconciler) refuse(ctx context.Context, v *view, why reason.List) (ctrl.Result, error) {
	status := *v.Owner.Status.DeepCopy()
	status.ObservedGeneration = v.Owner.Generation
	message := reason.Shorten(why.Summary(reasonsInEvent), 1024)
	setCondition(&status, v1beta1.CloneSetCondition{
		Type: ConditionInvalid, Status: corev1.ConditionTrue, Reason: string(why[0].Code), Message: message,
	}, metav1.NewTime(v.Now))
	if !equality.Semantic.DeepEqual(v.Owner.Status, status) {
		r.events.Event(v.Owner, corev1.EventTypeWarning, apps.EventFailedUpdate, message)
	}
	_, err := v.WriteStatus(ctx, v.Owner.Status, status)
	return ctrl.Result{}, err
}

// nextStatus computes the status, and when it has to be computed again because a deadline ends; zero for never.
func nextStatus(o *observation, instant time.Time, scaleErr, updateErr error) (v1beta1.CloneSetStatus, time.Duration) {
	replicas := o.settings.rollout.Replicas
	status := v1beta1.CloneSetStatus{
		ObservedGeneration:      o.cs.Generation,
		Replicas:                int32(len(o.pods.Active)),
		UpdateRevision:          o.update.Name,
		CurrentRevision:         o.current.Name,
		CollisionCount:          o.history.Collisions,
		LabelSelector:           o.settings.selector.String(),
		ExpectedUpdatedReplicas: int32(replicas - o.settings.rollout.Partition),
		Conditions:              slices.Clone(o.cs.Status.Conditions),
	}
	for i := range o.pods.Active {
		pod := &o.pods.Active[i]
		count(&status.ReadyReplicas, pod.Ready)
		count(&status.AvailableReplicas, pod.Available)
		count(&status.UpdatedReplicas, pod.Updated)
		count(&status.UpdatedReadyReplicas, pod.Updated && pod.Ready)
		count(&status.UpdatedAvailableReplicas, pod.Updated && pod.Available)
	}
	now := metav1.NewTime(instant)
	setFailure(&status, apps.ConditionFailedScale, scaleErr, now)
	setFailure(&status, apps.ConditionFailedUpdate, updateErr, now)
	dropCondition(&status, ConditionInvalid)
	setFailure(&status, ConditionOdd, o.settings.warnings.Err(), now)
	return status, setProgress(o, &status, now)
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
	why, message := "", err.Error()
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
	old := condition(status, c.Type)
	if old == nil {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old.Reason == c.Reason {
			c.LastUpdateTime = old.LastUpdateTime
		}
	}
	*old = c
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
func setProgress(o *observation, status *v1beta1.CloneSetStatus, now metav1.Time) (wake time.Duration) {
	deadline := o.cs.Spec.ProgressDeadlineSeconds
	if deadline == nil || *deadline == math.MaxInt32 {
		dropCondition(status, apps.ConditionProgressing)
		return 0
	}
	c := v1beta1.CloneSetCondition{Type: apps.ConditionProgressing, Status: corev1.ConditionTrue}
	was := &o.cs.Status
	progressed := status.UpdateRevision != was.UpdateRevision || status.UpdatedAvailableReplicas > was.UpdatedAvailableReplicas
	switch {
	case status.CurrentRevision == status.UpdateRevision && isOver(o.pods, o.settings.rollout.Replicas) && status.Replicas == status.UpdatedAvailableReplicas:
		c.Reason, c.Message = apps.ReasonProgressAvailable, "all Pods are at revision "+status.UpdateRevision+" and available"
	case o.settings.paused:
		c.Reason, c.Message = apps.ReasonProgressPaused, "the rollout is paused"
	case o.settings.rollout.Partition > 0 && status.ExpectedUpdatedReplicas < status.Replicas && status.ExpectedUpdatedReplicas <= status.UpdatedAvailableReplicas:
		c.Reason, c.Message = apps.ReasonProgressPartitionAvailable, fmt.Sprintf("%d Pods are at revision %s and available, as many as the partition lets", status.UpdatedAvailableReplicas, status.UpdateRevision)
	default:
		c.Reason, c.Message = apps.ReasonProgressUpdated, "rolling out revision "+status.UpdateRevision
		wake = deadlineWake(&c, condition(was, apps.ConditionProgressing), time.Duration(max(*deadline, 0))*time.Second, progressed, now)
	}
	setCondition(status, c, now)
	if set := condition(status, apps.ConditionProgressing); progressed && set.Reason == apps.ReasonProgressUpdated {
		set.LastUpdateTime = now
	}
	return wake
}

// deadlineWake turns the condition into the exceeded one where the clock has run out, and otherwise says when it will.
func deadlineWake(c, old *v1beta1.CloneSetCondition, deadline time.Duration, progressed bool, now metav1.Time) time.Duration {
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

// dropNames removes names from podsToDelete that are no active Pods any more. version is the CloneSet's after the
// status was written, so that only another writer's change is a conflict.
func (r *Reconciler) dropNames(ctx context.Context, v *view, o *observation, version string) (changed bool, err error) {
	names := v.Owner.Spec.ScaleStrategy.PodsToDelete
	if len(names) == 0 {
		return false, nil
	}
	active := make(map[string]bool, len(o.pods.Active))
	for i := range o.pods.Active {
		active[o.pods.Active[i].Name] = true
	}
	keep := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !active[name] })
	if len(keep) == len(names) {
		return false, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.Owner.UID, "resourceVersion": version},
		"spec":     map[string]any{"scaleStrategy": map[string]any{"podsToDelete": keep}},
	})
	if err != nil {
		return false, fmt.Errorf("encoding podsToDelete of CloneSet %s/%s: %w", v.Owner.Namespace, v.Owner.Name, err)
	}
	object := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: v.Owner.Namespace, Name: v.Owner.Name}}
	if err := v.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body)); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("removing names from podsToDelete of CloneSet %s/%s: %w", v.Owner.Namespace, v.Owner.Name, err)
	}
	return true, nil
}
