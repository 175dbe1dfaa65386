// Package fleet is a whole operator for its own kind, Fleet: a number of equal Pods, updated in place where possible.
// The kit does all hard work. The rest reads from top to bottom: observe, decide, act, report.
package fleet

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// Names of the operator's own: the kit has none.
const (
	group         = "fleet.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
)

// historyLimit is how many revisions without Pods are kept.
const historyLimit = 10

type reconciler struct{ *executor.Parts[*Fleet] }

// Reconcile takes a Fleet a step closer to its spec.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	fleet, pass := v.Owner, r.Fanout.Begin(v)
	if problems := decode.Reasons(fleet.Spec.undecodable); problems != nil {
		return r.report(ctx, v, pass, nil, nil, reason.Final(problems))
	}
	h, err := r.SyncHistory(ctx, v, pass, &fleet.Spec.Template, nil)
	if err != nil || h.Update == nil {
		return r.report(ctx, v, pass, nil, nil, err)
	}
	set := r.Reader.Read(fleet.UID, v.Pods, podcontrol.Want{Update: h.Update.Name}, v.Now)
	step := rollout.Plan(rollout.Spec{
		Replicas: fleet.Spec.Replicas, MaxUnavailable: max(fleet.Spec.MaxUnavailable, 1), Paths: rollout.Paths{MaxUnavailable: "spec.maxUnavailable"},
	}, set.Counts(false))
	orders := podcontrol.Orders{Rest: r.Pods.Rest}
	remove, update, pods := set.ChooseDeletions(step, orders).Delete, set.ChooseUpdates(step, orders).Update, r.Pods.For(v, pass)
	err = pass.UntilChanged(
		func() error { return r.create(ctx, v, pass, pods, step.Create, h.Update.Name) },
		func() error { return fanout.Each(ctx, pass, fanout.Task{Name: "delete Pods"}, remove, pods.Delete) },
		func() error {
			return fanout.Each(ctx, pass, fanout.Task{Name: "update Pods"}, update, pods.UpdateTo(h.Update, r.PlansTo(h, h.Update)))
		},
		func() error { return pods.Unfinished(set) },
	)
	truncateErr := r.TruncateHistory(ctx, v, pass, h, set, historyLimit)
	return r.report(ctx, v, pass, h, set, errors.Join(err, truncateErr))
}

func (r *reconciler) create(ctx context.Context, v *ownercache.View[*Fleet], pass *fanout.Pass, pods *executor.Pods[*Fleet], n int, revision string) error {
	_, err := pass.Create(ctx, fanout.Task{Name: "create Pods"}, n, func(ctx context.Context, _ int) error {
		pod := pods.NewPod(&v.Owner.Spec.Template, revision)
		pod.GenerateName = v.Owner.Name + "-"
		return pods.Create(ctx, pod, labels.Everything())
	})
	return err
}

// report writes a changed status, and returns when to look again. h and set are nil if the pass ended early.
func (r *reconciler) report(
	ctx context.Context, v *ownercache.View[*Fleet], pass *fanout.Pass, h *revision.History, set *podcontrol.Set, err error,
) (ctrl.Result, error) {
	status := v.Owner.DeepCopyObject().(*Fleet).Status
	status.ObservedGeneration = v.Owner.Generation
	if set != nil {
		pods := set.Totals()
		status.Revision, status.Pods, status.Available, status.Updated = h.Update.Name, pods.Pods, pods.Available, pods.Updated
		pass.Wake(set.NextAvailable)
	}
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failed", v.Owner.Generation, err))
	_, statusErr := v.WriteStatus(ctx, status)
	return pass.Result(err, statusErr)
}
