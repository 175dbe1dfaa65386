package daemonset

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// report writes status and history and says when to look again.
func (r *Reconciler) report(ctx context.Context, v *view, pass *fanout.Pass, o *observation, t *todo, scaleErr, updateErr error) (ctrl.Result, error) {
	pass.Wake(o.pods.NextAvailable)
	status := nextStatus(o, t, metav1.NewTime(v.Now), scaleErr, updateErr)
	var truncateErr error
	if len(o.twins) == 0 { // which would count
		truncateErr = r.Truncate(ctx, v, pass, o.history, o.pods, o.settings.historyLimit)
	}
	_, err := v.WriteStatus(ctx, v.Owner.Status, status)
	return pass.Result(scaleErr, updateErr, truncateErr, err)
}

// stop reports that a pass could not begin, unless trying again may help. Nothing else is touched.
func (r *Reconciler) stop(ctx context.Context, v *view, pass *fanout.Pass, t v1beta1.DaemonSetConditionType, err error) (ctrl.Result, error) {
	if !reason.IsFinal(err) {
		return pass.Result(err)
	}
	status := v.Owner.Status.DeepCopy()
	status.ObservedGeneration = v.Owner.Generation
	status.DropCondition(apps.ConditionInvalidSpec)
	status.SetFailure(t, err, metav1.NewTime(v.Now))
	if !equality.Semantic.DeepEqual(&v.Owner.Status, status) {
		name := apps.EventFailedUpdate
		if selector := v.Owner.Spec.Selector; selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			name = apps.EventSelectingAll
		}
		r.Events.Event(v.Owner, corev1.EventTypeWarning, name, status.Condition(t).Message)
	}
	_, err = v.WriteStatus(ctx, v.Owner.Status, *status)
	return pass.Result(err)
}

// nextStatus computes the status.
func nextStatus(o *observation, t *todo, now metav1.Time, scaleErr, updateErr error) v1beta1.DaemonSetStatus {
	n := t.step.Totals
	status := v1beta1.DaemonSetStatus{
		ObservedGeneration: o.set.Generation, UpdateRevision: revision.ShortName(o.history.Update.Name), CollisionCount: o.history.Collisions,
		DesiredNumberScheduled: int32(n.Desired), CurrentNumberScheduled: int32(n.Current), NumberMisscheduled: int32(n.Misscheduled),
		NumberReady: int32(n.Ready), UpdatedNumberScheduled: int32(n.Updated),
		NumberAvailable: int32(n.Available), NumberUnavailable: int32(n.Desired - n.Available),
		Conditions: slices.Clone(o.set.Status.Conditions),
	}
	status.SetFailure(apps.ConditionFailedCreatePod, scaleErr, now)
	status.SetFailure(apps.ConditionFailedUpdatePod, updateErr, now)
	status.DropCondition(apps.ConditionInvalidSpec)
	status.SetFailure(apps.ConditionOddSpec, slices.Concat(o.settings.warnings, o.fit.oddities).Err(), now)
	return status
}
