// Package agents is a whole operator for the example kind Agent: a Pod on every fitting Node, updated in place where
// possible. The library workloadkit does all the difficult work. The operator's own code is read from top to bottom:
// observe, decide, act, report. Package fleet, whose Pods run anywhere, is simpler and should be read first.
package agents

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// Each operator chooses these names, because the library workloadkit has no default names.
const (
	group         = "agents.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
)

// historyLimit is the number of revisions to keep in addition to the revisions of existing Pods.
const historyLimit = 10

type reconciler struct {
	*executor.Parts[*Agent]

	fits *ownercache.Memo[*Agent, fit]
}

// Reconcile takes the next step towards the state that an Agent's spec describes.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, result, err := r.Begin(ctx, req)
	if t == nil || t.Owner.DeletionTimestamp != nil {
		return result, err
	}
	agent := t.Owner
	fit := r.fits.Of(agent)
	if fit.err != nil {
		return r.report(ctx, t, nil, reason.Final(fit.err))
	}
	var nodes []pernode.Node
	for _, node := range r.Cache.Nodes.All() {
		verdict := fit.Fits(node)
		nodes = append(nodes, pernode.Node{Name: node.Name, Run: verdict.Run, Continue: verdict.Continue})
	}
	if err := r.SyncHistory(ctx, t, executor.Templates{Pod: &agent.Spec.Template}); err != nil || t.History.Update == nil {
		return r.report(ctx, t, nil, err)
	}
	update := t.History.Update
	t.Read(podcontrol.Want{Update: update.Name})
	// If Pods on a Node end again and again, PerNode delays the replacement of the next ended Pod.
	pods := t.PerNode(podcontrol.PerNodeOptions{})
	step, err := pernode.Plan(pernode.Spec{
		Partition: agent.Spec.Partition, MaxUnavailable: max(agent.Spec.MaxUnavailable, 1),
		Paths: rollout.Paths{Partition: "spec.partition", MaxUnavailable: "spec.maxUnavailable"},
	}, nodes, pods.Pods)
	if err != nil {
		return r.report(ctx, t, nil, reason.Final(err))
	}
	err = t.Pass.UntilChanged(
		func() error {
			_, err := t.CreatePerNode(ctx, step.Create, executor.NodeTemplates{Prepare: fit.Place})
			return err
		},
		t.Each(ctx, fanout.Task{Name: "delete Pods"}, pods.Of(step.Delete), t.Delete),
		t.Each(ctx, fanout.Task{Name: "update Pods"}, pods.Of(step.Update), t.UpdateTo(update, r.PlansTo(t.History, update))),
		t.Unfinished,
	)
	return r.report(ctx, t, &step, errors.Join(err, r.TruncateHistory(ctx, t, historyLimit)))
}

// report writes the status if it has changed, and returns when to reconcile again. If the reconciliation ended early,
// step is nil.
func (r *reconciler) report(ctx context.Context, t *executor.Turn[*Agent], step *pernode.Step, err error) (ctrl.Result, error) {
	status := t.Owner.DeepCopyObject().(*Agent).Status
	status.ObservedGeneration = t.Owner.Generation
	if step != nil {
		n := step.Totals
		status.Revision, status.Nodes, status.Available, status.Updated = t.History.Update.Name, int32(n.Desired), int32(n.Available), int32(n.Updated)
		meta.SetStatusCondition(&status.Conditions, reason.Condition("Waiting", t.Owner.Generation, step.Limits.Err()))
	}
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failed", t.Owner.Generation, err))
	_, statusErr := t.WriteStatus(ctx, status)
	return t.Pass.Result(err, statusErr)
}
