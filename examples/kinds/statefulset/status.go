package statefulset

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
)

// report writes status and history and says when to look again.
func (r *Reconciler) report(ctx context.Context, v *view, pass *fanout.Pass, o *observation, t *todo, scaleErr, updateErr error) (ctrl.Result, error) {
	pass.Wake(o.pods.NextAvailable)
	status := nextStatus(o, t, metav1.NewTime(v.Now), scaleErr, updateErr)
	truncateErr := r.Truncate(ctx, v, pass, o.history, o.pods, o.settings.historyLimit, status.CurrentRevision)
	_, err := v.WriteStatus(ctx, status)
	return pass.Result(scaleErr, updateErr, truncateErr, err)
}

// stop reports a pass stopped before its start.
func (r *Reconciler) stop(ctx context.Context, v *view, pass *fanout.Pass, t v1beta1.StatefulSetConditionType, err error) (ctrl.Result, error) {
	status := v.Owner.Status.DeepCopy()
	status.ObservedGeneration = v.Owner.Generation
	return kruise.Stop(ctx, r.Parts, v, pass, v.Owner.Status, status, t, apps.EventFailedUpdate, err)
}

// nextStatus computes the status.
func nextStatus(o *observation, t *todo, now metav1.Time, scaleErr, updateErr error) v1beta1.StatefulSetStatus {
	pods := o.pods.Totals()
	status := v1beta1.StatefulSetStatus{
		ObservedGeneration: o.set.Generation, UpdateRevision: o.update.Name, CurrentRevision: o.current.Name, CollisionCount: o.history.Collisions,
		Replicas: pods.Pods, ReadyReplicas: pods.Ready, AvailableReplicas: pods.Available,
		UpdatedReplicas: pods.Updated, UpdatedReadyReplicas: pods.UpdatedReady, UpdatedAvailableReplicas: pods.UpdatedAvailable,
		LabelSelector: o.settings.selector.String(), Conditions: slices.Clone(o.set.Status.Conditions),
	}
	for _, pod := range o.pods.Inactive {
		if pod.Status.Phase != "" { // an inactive Pod still holds its ordinal
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
	status.SetFailure(apps.ConditionFailedCreatePod, scaleErr, now)
	status.SetFailure(apps.ConditionFailedUpdatePod, updateErr, now)
	status.SetFailure(apps.ConditionWaiting, kruise.Waits(slices.Concat(t.step.Limits, t.held, kruise.TellLacking(o.pods, o.claims.Templates))), now)
	status.DropCondition(apps.ConditionInvalidSpec)
	status.SetFailure(apps.ConditionOddSpec, o.settings.warnings.Err(), now)
	return status
}
