// Package fleet is a whole operator for the example kind Fleet: a number of identical Pods, updated in place where
// possible. The library workloadkit does all the difficult work. The operator's own code is read from top to bottom:
// observe, decide, act, report.
package fleet

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// Each operator chooses these names, because the library workloadkit has no default names.
const (
	group         = "fleet.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
)

// historyLimit is the number of revisions to keep in addition to the revisions of existing Pods.
const historyLimit = 10

type reconciler struct{ *executor.Parts[*Fleet] }

// Reconcile takes the next step towards the state that a Fleet's spec describes.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, result, err := r.Begin(ctx, req)
	if t == nil || t.Owner.DeletionTimestamp != nil {
		return result, err
	}
	fleet := t.Owner
	if problems := decode.Reasons(fleet.Spec.undecodable); problems != nil {
		return r.report(ctx, t, reason.Final(problems))
	}
	if err := r.SyncHistory(ctx, t, executor.Templates{Pod: &fleet.Spec.Template}); err != nil || t.History.Update == nil {
		return r.report(ctx, t, err)
	}
	update := t.History.Update
	pods := t.Read(podcontrol.Want{Update: update.Name})
	step := rollout.Plan(rollout.Spec{
		Replicas: fleet.Spec.Replicas, MaxUnavailable: max(fleet.Spec.MaxUnavailable, 1), Paths: rollout.Paths{MaxUnavailable: "spec.maxUnavailable"},
	}, pods.Counts(false))
	orders := podcontrol.Orders{Rest: r.Executor.Rest}
	err = t.Pass.UntilChanged(
		func() error {
			_, err := t.CreatePods(ctx, step.Create, executor.PodTemplates{Template: &fleet.Spec.Template, Revision: update.Name})
			return err
		},
		t.Each(ctx, fanout.Task{Name: "delete Pods"}, pods.ChooseDeletions(step, orders).Delete, t.Delete),
		t.Each(ctx, fanout.Task{Name: "update Pods"}, pods.ChooseUpdates(step, orders).Update, t.UpdateTo(update, r.PlansTo(t.History, update))),
		t.Unfinished,
	)
	return r.report(ctx, t, errors.Join(err, r.TruncateHistory(ctx, t, historyLimit)))
}

// report writes the status if it has changed, and returns when to reconcile again.
func (r *reconciler) report(ctx context.Context, t *executor.Turn[*Fleet], err error) (ctrl.Result, error) {
	status := t.Owner.DeepCopyObject().(*Fleet).Status
	status.ObservedGeneration = t.Owner.Generation
	if t.Set != nil { // nil if the reconciliation ended early
		pods := t.Set.Totals()
		status.Revision, status.Pods, status.Available, status.Updated = t.History.Update.Name, pods.Pods, pods.Available, pods.Updated
		t.Pass.Wake(t.Set.NextAvailable)
	}
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failed", t.Owner.Generation, err))
	_, statusErr := t.WriteStatus(ctx, status)
	return t.Pass.Result(err, statusErr)
}
