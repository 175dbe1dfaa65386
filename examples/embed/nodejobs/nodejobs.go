// Package nodejobs is a whole operator for the example kind NodeJob: a program that runs once on every fitting Node,
// on a few Nodes at a time. The library workloadkit does all the difficult work. The operator's own code is read from
// top to bottom: observe, decide, act, report.
package nodejobs

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/completion/noderun"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

const group = "nodejobs.example.com"

type reconciler struct {
	cache  *ownercache.Cache[*NodeJob]
	fits   *ownercache.Memo[*NodeJob, fit]
	runner *noderun.Runner[*NodeJob]
	fanout *fanout.Fanout
}

type view = ownercache.View[*NodeJob]

// Reconcile takes the next step of a NodeJob.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // the garbage collector deletes the Pods
		return result, err
	}
	pass, fit := r.fanout.Begin(v), r.fits.Of(v.Owner)
	if fit.err != nil {
		return r.report(ctx, v, pass, v.Owner.Status, reason.Final(fit.err))
	}
	survey, step, err := r.decide(v, fit)
	if err != nil {
		return r.report(ctx, v, pass, v.Owner.Status, reason.Final(err))
	}
	pass.Wake(step.After)
	status, work := nextStatus(v.Owner, survey, step, v.Now), survey.Work(step)
	if work.Ends { // the end is recorded first, so that a later process continues from the status
		if written, err := v.WriteSharedStatus(ctx, status); err != nil || !written {
			return pass.Result(err)
		}
	}
	_, err = r.runner.Do(ctx, v, pass, work, func(node string) *corev1.Pod {
		return r.runner.NewPod(v.Owner, &v.Owner.Spec.Template, fit.Requirements, node)
	})
	return r.report(ctx, v, pass, status, err)
}

// decide counts the Pods, and decides which Pods to create and delete now.
func (r *reconciler) decide(v *view, fit fit) (*completion.Survey, completion.Step, error) {
	spec, status := &v.Owner.Spec, &v.Owner.Status
	claims := map[string]completion.Claim{}
	for _, node := range r.cache.Nodes.All() {
		claims[node.Name] = fit.claim(node)
	}
	survey := completion.OnNodes(v.Pods, claims, 0)
	paths := completion.Paths{Parallelism: "spec.parallelism", Paused: "spec.paused", Deadline: "spec.deadlineSeconds"}
	parallelism, err := completion.Parallelism(paths.Parallelism, spec.Parallelism, survey.Wanted)
	if err != nil {
		return nil, completion.Step{}, err
	}
	return survey, completion.Next(completion.Rules{
		Parallelism: parallelism, Paused: spec.Paused, Paths: paths,
		Deadline: completion.Seconds(spec.DeadlineSeconds), TTL: completion.Seconds(spec.TTLSeconds),
	}, survey.Progress(ptr.Deref(status.Started, metav1.Time{}).Time, ptr.Deref(status.Ended, metav1.Time{}).Time), v.Now), nil
}

// nextStatus returns the status to write after a decision. The numbers of a job that has ended no longer change.
func nextStatus(job *NodeJob, survey *completion.Survey, step completion.Step, now time.Time) Status {
	status := *job.Status.DeepCopy()
	status.ObservedGeneration = job.Generation
	if status.Active = int32(survey.Active); step.State == completion.Over {
		return status
	}
	status.State, status.Nodes = step.State, int32(survey.Wanted)
	status.Done, status.Failed = int32(survey.Done), int32(survey.Failed)
	if status.Started == nil && step.State != completion.Paused {
		status.Started = &metav1.Time{Time: now}
	}
	if step.State == completion.Complete || step.State == completion.Failed {
		status.Ended = &metav1.Time{Time: now}
	}
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Waiting", job.Generation, step.Why.Err()))
	return status
}

// report writes the status if it has changed, unless another process has written a newer status, and returns when to
// reconcile again.
func (r *reconciler) report(ctx context.Context, v *view, pass *fanout.Pass, status Status, err error) (ctrl.Result, error) {
	meta.SetStatusCondition(&status.Conditions, reason.Condition("Failing", v.Owner.Generation, err))
	_, statusErr := v.WriteSharedStatus(ctx, status)
	return pass.Result(err, statusErr)
}
