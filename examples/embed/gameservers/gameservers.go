// Package gameservers is a whole operator for the example kind GameServers: Pods with ordinals, updated in place
// where possible, and never during a match. The library workloadkit does all the difficult work. The operator's own
// code is read from top to bottom: observe, decide, act, report. Package fleet, whose Pods are identical, is simpler
// and should be read first.
package gameservers

import (
	"cmp"
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

type reconciler struct{ *executor.Parts[*GameServers] }

type turn = executor.Turn[*GameServers]

// decision contains the decisions of a reconciliation. If the reconciliation ended early, fields may be nil.
type decision struct {
	current *appsv1.ControllerRevision
	members *podcontrol.Numbered
	step    numbered.Step
	// unfinished is the reason for which the update waits; nil if all Pods are updated and available.
	unfinished error
}

// Reconcile takes the next step towards the state that a GameServers' spec describes.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, result, err := r.Begin(ctx, req)
	if t == nil || t.Owner.DeletionTimestamp != nil {
		return result, err
	}
	set, problems := wanted(t.Owner, r.InPlace)
	if len(problems) > 0 {
		return r.report(ctx, t, &decision{}, reason.Final(problems))
	}
	if err := r.SyncHistory(ctx, t, executor.Templates{Pod: &t.Owner.Spec.Template}); err != nil || t.History.Update == nil {
		return r.report(ctx, t, &decision{}, err)
	}
	d, err := r.decide(t, set)
	if err == nil {
		err = r.act(ctx, t, d)
	}
	return r.report(ctx, t, d, errors.Join(err, r.TruncateHistory(ctx, t, t.Owner.Spec.HistoryLimit, d.current.Name)))
}

// decide has no side effects, but reads the remembered refusals of the API server.
func (r *reconciler) decide(t *turn, wanted ordinals.Set) (*decision, error) {
	spec, update := &t.Owner.Spec, t.History.Update
	d := &decision{current: t.History.Current(t.Owner.Status.CurrentRevision)}
	t.Read(podcontrol.Want{Update: update.Name})
	d.members = t.Numbered(podcontrol.NumberedOptions{StartTime: 2 * time.Minute})
	complete := d.members.IsComplete(wanted)
	if complete {
		d.current = update
	}
	var err error
	d.step, err = numbered.Plan(numbered.Spec{
		Wanted: wanted, Partition: spec.Partition, MaxUnavailable: max(spec.MaxUnavailable, 1), Parallel: true,
		Paths: rollout.Paths{Partition: "spec.partition", MaxUnavailable: "spec.maxUnavailable"},
	}, d.members.Pods)
	if !complete || len(d.members.Pods) > wanted.Len() {
		d.unfinished = cmp.Or[error](d.step.Limits.Err(), reason.Reason{Code: UnderWay})
	}
	return d, reason.Final(err)
}

// act carries out the steps of the decision, up to and including the first step that changes an object.
func (r *reconciler) act(ctx context.Context, t *turn, d *decision) error {
	update := t.History.Update
	err := t.Pass.UntilChanged(
		func() error {
			_, err := t.CreateNumbered(ctx, d.step.Create, executor.NumberedTemplates{Current: d.current})
			return err
		},
		t.Each(ctx, fanout.Task{Name: "take Pods back"}, d.members.Of(d.step.Cancel), t.Cancel),
		t.Each(ctx, fanout.Task{Name: "delete Pods"}, d.members.Of(d.step.Delete), t.Delete),
		t.Each(ctx, fanout.Task{Name: "update Pods"}, d.members.Of(d.step.Update), t.UpdateTo(update, r.PlansTo(t.History, update))),
		t.Unfinished,
	)
	if waiting := t.Waiting().Err(); waiting != nil {
		d.unfinished = waiting
	}
	return err
}

// report writes the status if it has changed, and returns when to reconcile again.
func (r *reconciler) report(ctx context.Context, t *turn, d *decision, err error) (ctrl.Result, error) {
	status := t.Owner.DeepCopyObject().(*GameServers).Status
	status.ObservedGeneration = t.Owner.Generation
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failed", t.Owner.Generation, err))
	if d.members != nil {
		pods := t.Set.Totals()
		status.Pods, status.Available, status.Updated = pods.Pods, pods.Available, pods.Updated
		status.Revision, status.CurrentRevision = t.History.Update.Name, d.current.Name
		meta.SetStatusCondition(&status.Conditions, reason.Condition("Progressing", t.Owner.Generation, d.unfinished))
		t.Pass.Wake(t.Set.NextAvailable)
		t.Pass.Wake(d.members.NextBroken)
	}
	_, statusErr := t.WriteStatus(ctx, status)
	return t.Pass.Result(err, statusErr)
}
