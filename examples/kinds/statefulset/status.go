package statefulset

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
)

// report writes the status, deletes revisions beyond the history limit, and returns when to reconcile again.
func (r *Reconciler) report(ctx context.Context, t *turn, o *observation, d *todo, scaleErr, updateErr error) (ctrl.Result, error) {
	t.Pass.Wake(o.pods.NextAvailable)
	status := nextStatus(o, d, metav1.NewTime(t.Now), scaleErr, updateErr)
	truncateErr := r.TruncateHistory(ctx, t, o.settings.historyLimit, status.CurrentRevision)
	_, err := t.WriteStatus(ctx, status)
	return t.Pass.Result(scaleErr, updateErr, truncateErr, err)
}

// nextStatus returns the new status.
func nextStatus(o *observation, t *todo, now metav1.Time, scaleErr, updateErr error) v1beta1.StatefulSetStatus {
	pods := o.pods.Totals()
	status := v1beta1.StatefulSetStatus{
		ObservedGeneration: o.set.Generation, UpdateRevision: o.update.Name, CurrentRevision: o.current.Name, CollisionCount: o.history.Collisions,
		Replicas: pods.Pods, ReadyReplicas: pods.Ready, AvailableReplicas: pods.Available,
		UpdatedReplicas: pods.Updated, UpdatedReadyReplicas: pods.UpdatedReady, UpdatedAvailableReplicas: pods.UpdatedAvailable,
		LabelSelector: o.settings.selector.String(), Conditions: slices.Clone(o.set.Status.Conditions),
	}
	for _, pod := range o.pods.Inactive {
		if pod.Status.Phase != "" { // an inactive Pod still occupies its ordinal
			status.Replicas++
		}
		if podstate.IsReady(pod) {
			status.ReadyReplicas++
		}
	}
	for i := range o.pods.Active {
		if revision.Same(o.pods.Active[i].Revision, o.current.Name) {
			status.CurrentReplicas++
		}
	}
	status.VolumeClaims = o.claimStatus()
	status.Conditions.SetFailure(apps.ConditionFailedCreatePod, scaleErr, now)
	status.Conditions.SetFailure(apps.ConditionFailedUpdatePod, updateErr, now)
	status.Conditions.SetFailure(apps.ConditionWaiting, kruise.Waits(slices.Concat(t.step.Limits, t.held, o.pods.LackedClaims(o.claims.Templates))), now)
	status.Conditions.Drop(apps.ConditionInvalidSpec)
	status.Conditions.SetFailure(apps.ConditionOddSpec, o.settings.warnings.Err(), now)
	t.restart.Report(&status.Conditions, now)
	return status
}

// statusOf returns the status, and pointers to the observed generation and the conditions.
func statusOf(set *v1beta1.StatefulSet) (status any, observed *int64, conditions *v1beta1.Conditions) {
	return set.Status, &set.Status.ObservedGeneration, &set.Status.Conditions
}
