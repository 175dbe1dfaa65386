package broadcastjob

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/completion/noderun"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "broadcastjob-controller"

// Options are the options of the controller. The zero value is valid.
type Options struct {
	kruise.Options
	// BindPods is true if the controller binds Pods to their Nodes when it creates the Pods, without the scheduler.
	BindPods bool
}

// Reconciler reconciles BroadcastJobs.
type Reconciler struct {
	cache    *ownercache.Cache[*v1beta1.BroadcastJob]
	settings *ownercache.Memo[*v1beta1.BroadcastJob, *settings]
	runner   *noderun.Runner[*v1beta1.BroadcastJob]
	fanout   *fanout.Fanout
	events   record.EventRecorder
	told     *kruise.Told
	options  Options
}

// view is a BroadcastJob with its Pods, as the cache shows them.
type view = ownercache.View[*v1beta1.BroadcastJob]

// Setup adds the controller to the manager. The controller writes with c, and c must read from the manager's cache. The
// scheme must contain the BroadcastJob types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	nodes := ownercache.WatchNodes(r.cache, func(job *v1beta1.BroadcastJob, node *corev1.Node) completion.Claim {
		if job.Status.Finished() {
			return completion.Claim{}
		}
		return r.settings.Of(job).Claim(node)
	}, nodefit.ChangedSize)
	return r.cache.AddController(mgr, "broadcastjob", r, options.Loop(options.Workers, nodes))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options.Options = options.Complete()
	r := &Reconciler{fanout: fanout.New(options.Calls), events: mgr.GetEventRecorderFor(ControllerName), options: options}
	var err error
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.BroadcastJob{}, options.Options, ownercache.Options{Nodes: true, Namespace: options.Namespace})
	if err != nil {
		return nil, err
	}
	if r.runner, err = noderun.New(r.cache); err != nil {
		return nil, err
	}
	r.settings = ownercache.NewMemo(r.cache, settingsOf)
	r.told = kruise.NewTold(r.cache, r.events)
	r.cache.OnGone(r.fanout.Backoff.Forget)
	return r, nil
}

// Reconcile takes the next step of a job.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // the garbage collector deletes the Pods
		return result, err
	}
	pass := r.fanout.Begin(v)
	s := r.settings.Of(v.Owner)
	if s.Problems != nil {
		return r.refuse(ctx, v, pass, s.Problems)
	}
	d, err := decide(&observation{Job: v.Owner, Settings: s, Nodes: r.cache.Nodes.All(), Pods: v.Pods, Now: v.Now})
	if err != nil {
		return r.refuse(ctx, v, pass, reason.From(err))
	}
	pass.Wake(d.Step.After)
	if d.Ends {
		if err := r.write(ctx, v, d.Status); err != nil {
			return pass.Result(err)
		}
		_, err := r.act(ctx, v, pass, s, d)
		return pass.Result(err)
	}
	out, err := r.act(ctx, v, pass, s, d)
	return pass.Result(err, r.report(ctx, v, d, out))
}

// report sends events and writes the status.
func (r *Reconciler) report(ctx context.Context, v *view, d *decision, out noderun.Done) error {
	r.tell(v.Owner, d)
	if d.Step.State != completion.Over {
		d.Status.Active += int32(out.Active())
		if out.CreateErr != nil || out.Created > 0 || len(d.Create) == 0 {
			d.Status.SetFailure(v1beta1.JobFailedCreatePod, out.CreateErr, metav1.NewTime(v.Now))
		}
	}
	return r.write(ctx, v, d.Status)
}

// write writes the status if it has changed, and then sends events about the changes.
func (r *Reconciler) write(ctx context.Context, v *view, status v1beta1.BroadcastJobStatus) error {
	before := v.Owner.Status
	if _, err := v.WriteStatus(ctx, status); err != nil {
		return err
	}
	for _, event := range transitions(&before, &status) {
		r.events.Event(v.Owner, event.Type, event.Reason, event.Message)
	}
	return nil
}

// tell sends a single event about each problem, however long the problem lasts.
func (r *Reconciler) tell(job *v1beta1.BroadcastJob, d *decision) {
	excess := ""
	if len(d.Step.Why) > 0 && d.Step.Why[0].Code == completion.OverParallelism {
		excess = string(completion.OverParallelism)
	}
	if r.told.IsNews(job.UID, apps.EventTooManyActivePods, excess) {
		r.events.Event(job, corev1.EventTypeWarning, apps.EventTooManyActivePods, d.Step.Why.String())
	}
	nowhere := ""
	if d.Step.State == completion.Running && d.Status.Desired == 0 {
		nowhere = "no Node fits: see nodeSelector, affinity, tolerations and resource requests"
	}
	r.told.Tell(job, corev1.EventTypeWarning, apps.EventNoNodeFits, nowhere)
	if r.told.IsNews(job.UID, apps.EventDuplicatePod, strings.Join(d.Duplicates, ",")) {
		r.events.Eventf(job, corev1.EventTypeWarning, apps.EventDuplicatePod, "more than one Pod of the job is on %s", kruise.Some(d.Duplicates, ""))
	}
}

// refuse reports that a job is invalid. The Pods are not changed. If the job has ended already, refuse reports nothing.
func (r *Reconciler) refuse(ctx context.Context, v *view, pass *fanout.Pass, problems reason.List) (ctrl.Result, error) {
	if v.Owner.Status.Finished() {
		return pass.Result()
	}
	before, status := v.Owner.Status.Condition(v1beta1.JobInvalidSpec), v.Owner.Status.DeepCopy()
	status.SetFailure(v1beta1.JobInvalidSpec, problems, metav1.NewTime(v.Now))
	after := status.Condition(v1beta1.JobInvalidSpec)
	_, err := v.WriteStatus(ctx, *status)
	if err == nil && (before == nil || before.Message != after.Message) {
		r.events.Event(v.Owner, corev1.EventTypeWarning, apps.EventInvalidBroadcastJob, after.Message)
	}
	return pass.Result(reason.Final(problems), err)
}
