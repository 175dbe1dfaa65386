package noderun_test

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/completion/noderun"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
)

// reconciler runs a Pod once on every fitting Node. The owners are Jobs, because every program knows this type.
type reconciler struct {
	cache  *ownercache.Cache[*batchv1.Job]
	runner *noderun.Runner[*batchv1.Job]
	fanout *fanout.Fanout
}

// Example is a controller of jobs on Nodes: count, decide, record the end, act. The operator examples/embed/nodejobs
// is a complete version.
func Example() {
	setup := func(ctx context.Context, mgr manager.Manager) error {
		cache, err := ownercache.New(ctx, mgr, &batchv1.Job{}, ownercache.Options{Nodes: true})
		if err != nil {
			return err
		}
		runner, err := noderun.New(cache)
		if err != nil {
			return err
		}
		r := &reconciler{cache, runner, fanout.New(10)}
		watch := ownercache.WatchNodes(cache, func(job *batchv1.Job, node *corev1.Node) completion.Claim { return claim(job, node) })
		return cache.AddController(mgr, "nodejobs", r, ownercache.ControllerOptions{Watch: watch})
	}
	_ = setup // in main, before the manager starts
}

func claim(job *batchv1.Job, node *corev1.Node) completion.Claim {
	fits, err := nodefit.New(&job.Spec.Template.Spec) // a program does so once per job: see ownercache.Memo
	if err != nil {
		return completion.Claim{}
	}
	verdict := fits.Fits(node)
	return completion.Claim{Fits: verdict.Run, Keeps: verdict.Continue}
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil {
		return result, err
	}
	pass, job := r.fanout.Begin(v), v.Owner
	fits, err := nodefit.New(&job.Spec.Template.Spec)
	if err != nil {
		return pass.Result(err)
	}
	claims := map[string]completion.Claim{}
	for _, node := range r.cache.Nodes.All() {
		claims[node.Name] = claim(job, node)
	}
	survey := completion.OnNodes(v.Pods, claims, 0)
	started, ended := ptr.Deref(job.Status.StartTime, metav1.Time{}), ptr.Deref(job.Status.CompletionTime, metav1.Time{})
	step := completion.Next(completion.Rules{Parallelism: 5}, survey.Progress(started.Time, ended.Time), v.Now)
	work := survey.Work(step)
	if work.Ends { // a process that is restarted in between continues from the status
		status := job.Status.DeepCopy()
		status.CompletionTime = &metav1.Time{Time: v.Now}
		if _, err := v.WriteStatus(ctx, *status); err != nil {
			return pass.Result(err)
		}
	}
	_, err = r.runner.Do(ctx, v, pass, work, func(node string) *corev1.Pod {
		return r.runner.NewPod(job, &job.Spec.Template, fits, node)
	})
	pass.Wake(step.After)
	return pass.Result(err)
}
