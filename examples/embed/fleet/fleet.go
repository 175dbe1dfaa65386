// Package fleet is a whole operator for a kind of its own, Fleet: a number of equal Pods, updated in place where that is possible.
// Everything hard comes from the kit. What is left reads from top to bottom: observe, decide, act, report.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
	"github.com/workloadkit/workloadkit/rollout"
)

// Names of the operator's own: the kit has none.
const (
	group         = "fleet.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
	// InvalidSpec is the code of a spec that makes no sense.
	InvalidSpec reason.Code = "InvalidSpec"
)

// historyLimit is how many revisions are kept that no Pod has any more.
const historyLimit = 10

type reconciler struct {
	*executor.Parts[*Fleet]

	events events.EventRecorder
}

// Reconcile takes one Fleet a step closer to its spec.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	fleet, pass := v.Owner, r.Fanout.Begin(v)
	if problems := fleet.Spec.undecodable; len(problems) > 0 {
		return r.report(ctx, v, pass, nil, nil, reason.Final(reason.Reason{Code: InvalidSpec, Path: problems[0].Path, Detail: problems[0].Detail}))
	}
	h := r.Histories.Of(revision.OwnerOf(fleet, r.Cache.Kind()), nil, v.Revisions)
	err = pass.Once(ctx, fanout.Task{Name: "write the revision"}, func() (bool, error) {
		return history.Sync(ctx, v.Client, r.Cache.APIReader(), h, &fleet.Spec.Template)
	})
	if err != nil || h.Update == nil {
		return r.report(ctx, v, pass, nil, nil, err)
	}
	set := r.Reader.Read(fleet.UID, v.Pods, podcontrol.Want{Update: h.Update.Name}, v.Now)
	step := rollout.Plan(rollout.Spec{Replicas: fleet.Spec.Replicas, MaxUnavailable: max(fleet.Spec.MaxUnavailable, 1)}, set.Counts(false))
	orders := podcontrol.Orders{Hopeless: r.Pods.IsHopeless}
	remove, update, pods := set.ChooseDeletions(step, orders).Delete, set.ChooseUpdates(step, orders).Update, r.Pods.For(v, pass)
	err = pass.UntilChanged(
		func() error { return r.create(ctx, v, pass, pods, step.Create, h.Update.Name) },
		func() error { return fanout.Each(ctx, pass, fanout.Task{Name: "delete Pods"}, remove, pods.Delete) },
		func() error {
			return fanout.Each(ctx, pass, fanout.Task{Name: "update Pods"}, update, pods.UpdateTo(h.Update, r.PlansTo(h, h.Update)))
		},
		func() error { return pods.Unfinished(set) },
	)
	truncateErr := pass.Once(ctx, fanout.Task{Name: "truncate the history"}, func() (bool, error) {
		return history.Truncate(ctx, v.Client, h, historyLimit, revision.CountUnused, set.Uses)
	})
	return r.report(ctx, v, pass, h, set, errors.Join(err, truncateErr))
}

func (r *reconciler) create(ctx context.Context, v *ownercache.View[*Fleet], pass *fanout.Pass, pods *executor.Pods[*Fleet], n int, revision string) error {
	made, err := pass.Create(ctx, fanout.Task{Name: "create Pods"}, n, func(ctx context.Context, _ int) error {
		pod := pods.NewPod(&v.Owner.Spec.Template, revision)
		pod.GenerateName = v.Owner.Name + "-"
		return pods.Create(ctx, pod, labels.Everything())
	})
	if made > 0 {
		r.events.Eventf(v.Owner, nil, corev1.EventTypeNormal, "Created", "Create", "created %d Pods at revision %s", made, revision)
	}
	return err
}

// report writes the status where it differs, and says when to look again. h and set are nil where the pass did not get that far.
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
	condition := metav1.Condition{Type: "Failed", Status: metav1.ConditionFalse, Reason: "AsExpected", ObservedGeneration: v.Owner.Generation}
	if err != nil {
		code, message := reason.Explain(err)
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, cmp.Or(string(code), "Error"), message
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	_, statusErr := v.WriteStatus(ctx, v.Owner.Status, status)
	return pass.Result(err, statusErr)
}

// tell turns what happens to Pods into events.
func (r *reconciler) tell(fleet *Fleet, e executor.Event) {
	kind, text := corev1.EventTypeNormal, fmt.Sprintf("Pod %s: %s", e.Pod.Name, e.Type)
	if len(e.Why) > 0 {
		text += ", because " + e.Why.Summary(5)
	}
	if e.Err != nil {
		kind, text = corev1.EventTypeWarning, text+": "+e.Err.Error()
	}
	r.events.Eventf(fleet, e.Pod, kind, string(e.Type), "Update", "%s", text)
}
