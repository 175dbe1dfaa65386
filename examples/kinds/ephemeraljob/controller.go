package ephemeraljob

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of events.
const ControllerName = "ephemeraljob-controller"

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles EphemeralJobs.
type Reconciler struct {
	cache    *ownercache.Cache[*v1alpha1.EphemeralJob]
	settings *ownercache.Memo[*v1alpha1.EphemeralJob, *settings]
	pods     *ownercache.Index[*corev1.Pod]
	fanout   *fanout.Fanout
	events   record.EventRecorder
	told     *kruise.Told
	options  Options
}

// view is an EphemeralJob as the cache shows it.
type view = ownercache.View[*v1alpha1.EphemeralJob]

// Setup adds the controller to the manager. The controller writes with c, and c must read from the manager's cache. The
// scheme must contain the types of v1alpha1. The cache must keep the names and the environment of ephemeral containers,
// and the statuses of ephemeral containers.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.cache.AddController(mgr, "ephemeraljob", r, r.options.Loop(r.options.Workers, r.watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{fanout: fanout.New(options.Calls), events: mgr.GetEventRecorderFor(ControllerName), options: options}
	var err error
	if r.pods, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Pod{}); err != nil {
		return nil, err
	}
	pods := trackedclient.Pods(r.pods)
	if options.Namespace != "" {
		pods.Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
	}
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1alpha1.EphemeralJob{}, options,
		ownercache.Options{Owned: []trackedclient.Source{pods}, Namespace: options.Namespace})
	if err != nil {
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
	if v == nil {
		return result, err
	}
	pass := r.fanout.Begin(v)
	if v.Owner.DeletionTimestamp != nil {
		return pass.Result(r.letGo(ctx, v, pass))
	}
	s := r.settings.Of(v.Owner)
	if s.Problems != nil && !v.Owner.Status.Finished() {
		return pass.Result(reason.Final(s.Problems), r.write(ctx, v, refused(v.Owner, s.Problems, metav1.NewTime(v.Now))))
	}
	d := decide(&observation{Job: v.Owner, Settings: s, Pods: r.pods.In(v.Owner.Namespace), Now: v.Now})
	pass.Wake(d.Step.After)
	if d.Step.Remove {
		return pass.Result(r.remove(ctx, v, pass))
	}
	if d.Step.State != completion.Over {
		err = setFinalizer(ctx, v, pass, true)
	}
	switch {
	case err == nil:
		err = r.inject(ctx, v, pass, s, d)
	case !reason.IsFinal(err): // for example, another client has written the job since it was read
		return pass.Result(err)
	}
	return pass.Result(err, r.report(ctx, v, d, err))
}

// report writes the status at the end of a reconciliation. why contains the reasons why Pods did not get the
// containers.
func (r *Reconciler) report(ctx context.Context, v *view, d *decision, why error) error {
	wasRefused := func(pod *corev1.Pod) bool { return r.fanout.Backoff.WasRefused(pod.UID, addToPod()) }
	if !d.Status.Finished() && (why != nil || !slices.ContainsFunc(d.Open, wasRefused)) {
		d.Status.Conditions.Set(v1alpha1.EJobInjectionFailed, why, metav1.NewTime(v.Now))
	}
	message := ""
	if c := d.Status.Conditions.Get(v1alpha1.EJobInjectionFailed); c != nil {
		message = c.Message
	}
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventContainersNotAdded, message)
	return r.write(ctx, v, d.Status)
}

// write writes the status if it has changed, and then sends the event about the change.
func (r *Reconciler) write(ctx context.Context, v *view, status v1alpha1.EphemeralJobStatus) error {
	before := v.Owner.Status
	if _, err := v.WriteStatus(ctx, status); err != nil {
		return err
	}
	if kind, name, message := transition(&before, &status); name != "" {
		r.events.Event(v.Owner, kind, name, message)
	}
	return nil
}
