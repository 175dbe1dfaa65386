package advancedcronjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob/schedule"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "advancedcronjob-controller"

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles AdvancedCronJobs.
type Reconciler struct {
	cache   *ownercache.Cache[*v1beta1.AdvancedCronJob]
	runs    map[v1beta1.AdvancedCronJobTemplateType]*ownercache.Index[client.Object]
	fanout  *fanout.Fanout
	events  record.EventRecorder
	options Options

	told  *kruise.Told
	knows *ownercache.Memory[known] // prevents that a slot is started twice
}

// view is an AdvancedCronJob as the cache shows it.
type view = ownercache.View[*v1beta1.AdvancedCronJob]

// jobKind describes a kind of jobs, for example BroadcastJob, for which an AdvancedCronJob can have a template.
type jobKind struct {
	name     v1beta1.AdvancedCronJobTemplateType
	kind     schema.GroupVersionKind
	resource string
	empty    client.Object
}

func jobKinds() []jobKind {
	return []jobKind{
		{v1beta1.JobTemplate, batchv1.SchemeGroupVersion.WithKind("Job"), "jobs", &batchv1.Job{}},
		{v1beta1.BroadcastJobTemplate, v1beta1.GroupVersion.WithKind("BroadcastJob"), "broadcastjobs", &v1beta1.BroadcastJob{}},
		{v1beta1.ImageListPullJobTemplate, v1beta1.GroupVersion.WithKind("ImageListPullJob"), "imagelistpulljobs", &v1beta1.ImageListPullJob{}},
	}
}

// Setup adds the controller to the manager. The controller writes with c, which must read from the manager's cache.
// The scheme must contain the types of Jobs, AdvancedCronJobs, BroadcastJobs and ImageListPullJobs. While the CRD of
// BroadcastJobs or of ImageListPullJobs is not installed, an event on AdvancedCronJobs with such templates reports
// the missing CRD. The function Row determines which fields of Jobs the manager's cache keeps.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.cache.AddController(mgr, "advancedcronjob", r, options.Loop(options.Workers, watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{
		runs: map[v1beta1.AdvancedCronJobTemplateType]*ownercache.Index[client.Object]{}, fanout: fanout.New(options.Calls),
		events: mgr.GetEventRecorderFor(ControllerName), options: options,
	}
	var sources []trackedclient.Source
	for _, k := range jobKinds() {
		index, err := ownercache.NewIndex(ctx, mgr.GetCache(), k.empty)
		if err != nil {
			return nil, err
		}
		store := expectations.Store{GroupResource: schema.GroupResource{Group: k.kind.Group, Resource: k.resource}}
		source := trackedclient.Source{Store: store, Kind: k.kind, Index: index}
		if options.Namespace != "" {
			source.Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
		}
		r.runs[k.name], sources = index, append(sources, source)
	}
	var err error
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.AdvancedCronJob{}, options, ownercache.Options{Owned: sources, Namespace: options.Namespace})
	if err != nil {
		return nil, err
	}
	r.told = kruise.NewTold(r.cache, r.events)
	r.knows = ownercache.NewMemory[known](r.cache)
	return r, nil
}

// Reconcile starts a run of an AdvancedCronJob if a run is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // the garbage collector deletes the jobs
		return result, err
	}
	if err := r.noteSchedule(ctx, v); err != nil {
		return ctrl.Result{}, err
	}
	pass := r.fanout.Begin(v)
	when, invalid := r.resolve(v)
	d := decide(v.Owner, r.runsOf(v.Owner), when, r.knows.Of(v.Owner.UID), v.Now)
	if len(v.Owner.Spec.Undecodable) == 0 { // a status must not be written for a spec that cannot be decoded
		// The status must be written before runs are deleted, because until then a run is the only record of its start.
		if _, err := v.WriteStatus(ctx, d.Status); err != nil {
			return pass.Result(err)
		}
	}
	err = r.act(ctx, v, pass, d)
	r.tell(v, d, invalid)
	pass.Wake(untilNext(d, v.Now))
	if errors.Is(invalid, NotInstalled) {
		pass.Wake(installedRetry)
	}
	return pass.Result(err)
}

// installedRetry is the wait before checking again whether a kind is installed.
const installedRetry = 5 * time.Second

// noteSchedule records the schedule in the spec, and the time at which the schedule was changed. The object is read
// from the API server, because the cache drops managedFields.
func (r *Reconciler) noteSchedule(ctx context.Context, v *view) error {
	if len(v.Owner.Spec.Undecodable) > 0 {
		return nil
	}
	counted, before := counted(v.Owner, r.knows.Of(v.Owner.UID), v.Now)
	if before == nil {
		r.knows.Change(v.Owner.UID, func(k *known) { k.NoteSchedule(counted) })
		return nil
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kindName))
	if err := r.cache.APIReader().Get(ctx, client.ObjectKeyFromObject(v.Owner), found); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading when the schedule was changed: %w", err)
	}
	made := changeIn(found.ManagedFields, before, &counted)
	r.knows.Change(v.Owner.UID, func(k *known) { k.NoteChange(counted, made) })
	return nil
}

// resolve validates and parses the spec, which may have been stored without admission. If the returned schedule is nil,
// no run is started, and the error says why.
func (r *Reconciler) resolve(v *view) (*schedule.Schedule, error) {
	spec := &v.Owner.Spec
	if len(spec.Undecodable) > 0 {
		return nil, spec.Undecodable[0]
	}
	when, problems, _ := resolve(v.Owner, v.Now)
	if problems != nil {
		return nil, problems.Reasons()
	}
	if typeOf(&spec.Template) == v1beta1.BroadcastJobTemplate && !r.options.Serves(v1beta1.GroupVersion.WithKind("BroadcastJob")) {
		return nil, reason.Reason{Code: NotInstalled, Path: api.BroadcastJobPath().String(), Detail: "the CRD of BroadcastJobs is not installed", Remedy: "install it"}
	}
	if typeOf(&spec.Template) == v1beta1.ImageListPullJobTemplate && !r.options.Serves(v1beta1.GroupVersion.WithKind("ImageListPullJob")) {
		return nil, reason.Reason{Code: NotInstalled, Path: api.ImageListPath().String(), Detail: "the CRD of ImageListPullJobs is not installed", Remedy: "install it"}
	}
	return when, nil
}

// NotInstalled means that the API server does not serve the kind of the template.
const NotInstalled reason.Code = "NotInstalled"

// runsOf returns the jobs that an AdvancedCronJob controls, whatever API version their owner references name.
func (r *Reconciler) runsOf(owner *v1beta1.AdvancedCronJob) (out []Run) {
	for _, k := range jobKinds() {
		for _, object := range r.runs[k.name].Of(owner.Namespace, owner.UID) {
			if run, ok := Read(object); ok {
				out = append(out, run)
			}
		}
	}
	return out
}
