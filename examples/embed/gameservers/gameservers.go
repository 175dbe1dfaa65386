// Package gameservers is a whole operator for its own kind, GameServers: Pods with ordinals, updated in place where
// possible, and never during a match. The kit does all hard work; the rest reads from top to bottom: observe, decide,
// act, report. Package fleet, with Pods all alike, is simpler and better read first.
package gameservers

import (
	"cmp"
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

type reconciler struct{ *executor.Parts[*GameServers] }

type view = ownercache.View[*GameServers]

// seen is the sight and the decision of a pass. Fields are nil if the pass ended early.
type seen struct {
	history *revision.History
	current *appsv1.ControllerRevision
	pods    *podcontrol.Set
	members *podcontrol.Numbered
	step    numbered.Step
	// unfinished is the awaited event, or nil if everything is as wanted.
	unfinished error
}

// Reconcile takes a GameServers a step closer to its spec.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	pass := r.Fanout.Begin(v)
	set, problems := wanted(v.Owner, r.InPlace)
	if len(problems) > 0 {
		return r.report(ctx, v, pass, &seen{}, reason.Final(problems))
	}
	h, err := r.SyncHistory(ctx, v, pass, &v.Owner.Spec.Template, nil)
	if err != nil || h.Update == nil {
		return r.report(ctx, v, pass, &seen{}, err)
	}
	s, err := r.decide(v, set, h)
	if err == nil {
		err = r.act(ctx, v, pass, s)
	}
	truncateErr := r.TruncateHistory(ctx, v, pass, h, s.pods, v.Owner.Spec.HistoryLimit, s.current.Name)
	return r.report(ctx, v, pass, s, errors.Join(err, truncateErr))
}

// decide is pure apart from the memory of refusals.
func (r *reconciler) decide(v *view, wanted ordinals.Set, h *revision.History) (*seen, error) {
	spec := &v.Owner.Spec
	s := &seen{history: h, current: h.Current(v.Owner.Status.CurrentRevision)}
	s.pods = r.Reader.Read(v.Owner.UID, v.Pods, podcontrol.Want{Update: h.Update.Name}, v.Now)
	s.members = s.pods.Numbered(v.Owner.Name, podcontrol.NumberedOptions{StartTime: 2 * time.Minute, Rest: r.Pods.Rest}, v.Now)
	complete := s.members.IsComplete(wanted)
	if complete {
		s.current = h.Update
	}
	var err error
	s.step, err = numbered.Plan(numbered.Spec{
		Wanted: wanted, Partition: spec.Partition, MaxUnavailable: max(spec.MaxUnavailable, 1), Parallel: true,
		Paths: rollout.Paths{Partition: "spec.partition", MaxUnavailable: "spec.maxUnavailable"},
	}, s.members.Pods)
	if !complete || len(s.members.Pods) > wanted.Len() {
		s.unfinished = cmp.Or[error](s.step.Limits.Err(), reason.Reason{Code: UnderWay})
	}
	return s, reason.Final(err)
}

// act carries the step out, until something has changed.
func (r *reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, s *seen) error {
	pods := r.Pods.For(v, pass)
	each := func(task string, list []int, do func(context.Context, *corev1.Pod) (bool, error)) func() error {
		return func() error { return fanout.Each(ctx, pass, fanout.Task{Name: task}, s.members.Of(list), do) }
	}
	err := pass.UntilChanged(
		func() error {
			_, err := pods.CreateNumbered(ctx, s.step.Create, executor.NumberedTemplates{History: s.history, Current: s.current})
			return err
		},
		each("take Pods back", s.step.Cancel, pods.Cancel),
		each("delete Pods", s.step.Delete, pods.Delete),
		each("update Pods", s.step.Update, pods.UpdateTo(s.history.Update, r.PlansTo(s.history, s.history.Update))),
		func() error { return pods.Unfinished(s.pods) },
	)
	if waiting := pods.Waiting(s.pods).Err(); waiting != nil {
		s.unfinished = waiting
	}
	return err
}

// report writes a changed status, and returns when to look again.
func (r *reconciler) report(ctx context.Context, v *view, pass *fanout.Pass, s *seen, err error) (ctrl.Result, error) {
	status := v.Owner.DeepCopyObject().(*GameServers).Status
	status.ObservedGeneration = v.Owner.Generation
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failed", v.Owner.Generation, err))
	if s.pods != nil {
		pods := s.pods.Totals()
		status.Pods, status.Available, status.Updated = pods.Pods, pods.Available, pods.Updated
		status.Revision, status.CurrentRevision = s.history.Update.Name, s.current.Name
		meta.SetStatusCondition(&status.Conditions, reason.Condition("Progressing", v.Owner.Generation, s.unfinished))
		pass.Wake(s.pods.NextAvailable)
		pass.Wake(s.members.NextBroken)
	}
	_, statusErr := v.WriteStatus(ctx, status)
	return pass.Result(err, statusErr)
}
