package daemonset

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/revision"
)

// report writes the status, deletes revisions beyond the history limit, and returns when to reconcile again.
func (r *Reconciler) report(ctx context.Context, t *turn, o *observation, d *todo, scaleErr, updateErr error) (ctrl.Result, error) {
	t.Pass.Wake(o.pods.NextAvailable)
	status := nextStatus(o, d, metav1.NewTime(t.Now), scaleErr, updateErr)
	var truncateErr error
	if len(o.twins) == 0 { // the history limit must not count twins
		truncateErr = r.TruncateHistory(ctx, t, o.settings.historyLimit)
	}
	_, err := t.WriteStatus(ctx, status)
	return t.Pass.Result(scaleErr, updateErr, truncateErr, err)
}

// stop reports why a DaemonSet cannot be reconciled.
func (r *Reconciler) stop(ctx context.Context, t *turn, condition string, err error) (ctrl.Result, error) {
	event := apps.EventFailedUpdate
	if selector := t.Owner.Spec.Selector; selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		event = apps.EventSelectingAll
	}
	return r.Stop(ctx, t, condition, event, err)
}

// nextStatus returns the new status.
func nextStatus(o *observation, t *todo, now metav1.Time, scaleErr, updateErr error) v1beta1.DaemonSetStatus {
	n := t.step.Totals
	status := v1beta1.DaemonSetStatus{
		ObservedGeneration: o.set.Generation, UpdateRevision: revision.ShortName(o.history.Update.Name), CollisionCount: o.history.Collisions,
		DesiredNumberScheduled: int32(n.Desired), CurrentNumberScheduled: int32(n.Current), NumberMisscheduled: int32(n.Misscheduled),
		NumberReady: int32(n.Ready), UpdatedNumberScheduled: int32(n.Updated),
		NumberAvailable: int32(n.Available), NumberUnavailable: int32(n.Desired - n.Available),
		Conditions: slices.Clone(o.set.Status.Conditions),
	}
	status.Conditions.SetFailure(apps.ConditionFailedCreatePod, scaleErr, now)
	status.Conditions.SetFailure(apps.ConditionFailedUpdatePod, updateErr, now)
	status.Conditions.SetFailure(apps.ConditionWaiting, kruise.Waits(slices.Concat(t.step.Limits, t.held)), now)
	status.Conditions.Drop(apps.ConditionInvalidSpec)
	status.Conditions.SetFailure(apps.ConditionOddSpec, t.odd.Err(), now)
	t.restart.Report(&status.Conditions, now)
	return status
}

// statusOf returns the status, and pointers to the observed generation and the conditions.
func statusOf(set *v1beta1.DaemonSet) (status any, observed *int64, conditions *v1beta1.Conditions) {
	return set.Status, &set.Status.ObservedGeneration, &set.Status.Conditions
}
