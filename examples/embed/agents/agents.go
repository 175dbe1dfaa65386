// Package agents is a whole operator for its own kind, Agent: a Pod on every fitting Node, updated in place where
// possible. The kit does all hard work. The rest reads from top to bottom: observe, decide, act, report. Package fleet,
// with Pods anywhere, is simpler and better read first.
package agents

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// Names of the operator's own: the kit has none.
const (
	group         = "agents.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
)

// historyLimit is how many revisions without Pods are kept.
const historyLimit = 10

type reconciler struct {
	*executor.Parts[*Agent]

	fits *ownercache.Memo[*Agent, fit]
}

// Reconcile takes an Agent a step closer to its spec.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	agent, pass := v.Owner, r.Fanout.Begin(v)
	fit := r.fits.Of(agent)
	if fit.err != nil {
		return r.report(ctx, v, pass, nil, nil, reason.Final(fit.err))
	}
	var nodes []pernode.Node
	for _, node := range r.Cache.Nodes.All() {
		verdict := fit.Fits(node)
		nodes = append(nodes, pernode.Node{Name: node.Name, Run: verdict.Run, Continue: verdict.Continue})
	}
	h, err := r.SyncHistory(ctx, v, pass, &agent.Spec.Template, nil)
	if err != nil || h.Update == nil {
		return r.report(ctx, v, pass, nil, nil, err)
	}
	set, pods := r.Reader.Read(agent.UID, v.Pods, podcontrol.Want{Update: h.Update.Name}, v.Now), r.Pods.For(v, pass)
	perNode := set.PerNode(podcontrol.PerNodeOptions{Rest: r.Pods.Rest, Ended: pods.Ended})
	step, err := pernode.Plan(pernode.Spec{
		Partition: agent.Spec.Partition, MaxUnavailable: max(agent.Spec.MaxUnavailable, 1),
		Paths: rollout.Paths{Partition: "spec.partition", MaxUnavailable: "spec.maxUnavailable"},
	}, nodes, perNode.Pods)
	if err != nil {
		return r.report(ctx, v, pass, nil, nil, reason.Final(err))
	}
	each := func(task string, list []int, do func(context.Context, *corev1.Pod) (bool, error)) func() error {
		return func() error { return fanout.Each(ctx, pass, fanout.Task{Name: task}, perNode.Of(list), do) }
	}
	err = pass.UntilChanged(
		func() error {
			_, err := pods.CreatePerNode(ctx, step.Create, executor.NodeTemplates{History: h, Prepare: fit.Place})
			return err
		},
		each("delete Pods", step.Delete, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			node, _ := nodefit.NodeOf(pod) // after repeated ends of Pods on the Node, the next Pod waits
			return pods.DeleteFrom(ctx, pod, node)
		}),
		each("update Pods", step.Update, pods.UpdateTo(h.Update, r.PlansTo(h, h.Update))),
		func() error { return pods.Unfinished(set) },
	)
	truncateErr := r.TruncateHistory(ctx, v, pass, h, set, historyLimit)
	return r.report(ctx, v, pass, h, &step, errors.Join(err, truncateErr))
}

// report writes a changed status, and returns when to look again. h and step are nil if the pass ended early.
func (r *reconciler) report(
	ctx context.Context, v *ownercache.View[*Agent], pass *fanout.Pass, h *revision.History, step *pernode.Step, err error,
) (ctrl.Result, error) {
	status := v.Owner.DeepCopyObject().(*Agent).Status
	status.ObservedGeneration = v.Owner.Generation
	if step != nil {
		n := step.Totals
		status.Revision, status.Nodes, status.Available, status.Updated = h.Update.Name, int32(n.Desired), int32(n.Available), int32(n.Updated)
		meta.SetStatusCondition(&status.Conditions, reason.Condition("Waiting", v.Owner.Generation, step.Limits.Err()))
	}
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failed", v.Owner.Generation, err))
	_, statusErr := v.WriteStatus(ctx, status)
	return pass.Result(err, statusErr)
}
