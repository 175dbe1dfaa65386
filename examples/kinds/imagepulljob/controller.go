package imagepulljob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "imagepulljob-controller"

// Options are the options of the controller.
type Options struct {
	kruise.Options
	// KeepSeconds is how many seconds a pulled tag stays in NodeImages beyond the TTL that follows from the job.
	KeepSeconds int
	// Registries are the registries from which jobs may pull, as in imagepull.Registries; empty allows none.
	Registries []string
	// PullThrough says who pulls the images of jobs without the annotation apps.AnnotationPullThrough:
	// apps.PullThroughAgent or apps.PullThroughKubelet. Empty means apps.PullThroughAgent.
	PullThrough string
	// PauseImage is the container image of the Pods that make kubelets pull; empty means DefaultPauseImage.
	PauseImage string
}

// DefaultPauseImage is the pause image of Kubernetes 1.36.
const DefaultPauseImage = "registry.k8s.io/pause:3.10.1"

// complete fills in defaults and checks values.
func (o Options) complete() (Options, error) {
	o.Options = o.Options.Complete()
	o.PauseImage = cmp.Or(o.PauseImage, DefaultPauseImage)
	if _, err := imagepull.Parse(o.PauseImage); err != nil {
		return o, fmt.Errorf("pause image: %w", err)
	}
	if !slices.Contains([]string{"", apps.PullThroughAgent, apps.PullThroughKubelet}, o.PullThrough) {
		return o, fmt.Errorf("images are pulled through %q: %s or %s is needed", o.PullThrough, apps.PullThroughAgent, apps.PullThroughKubelet)
	}
	return o, nil
}

// Reconciler reconciles ImagePullJobs.
type Reconciler struct {
	cache    *ownercache.Cache[*v1beta1.ImagePullJob]
	settings *ownercache.Memo[*v1beta1.ImagePullJob, *settings]
	images   *ownercache.Index[*v1beta1.NodeImage]
	nodes    *ownercache.Index[*corev1.Node]
	pods     *ownercache.Index[*corev1.Pod]
	secrets  *ownercache.Index[client.Object] // metadata of Secrets
	synced   *ownercache.Memory[synced]
	memory   *ownercache.Memory[memory]
	fanout   *fanout.Fanout
	events   record.EventRecorder
	told     *kruise.Told
	options  Options
	// unserved is the time when the API server last removed the image volume from a new Pod, because the feature gate
	// ImageVolume is off; nil for never.
	unserved atomic.Pointer[time.Time]
}

// view is an ImagePullJob as the cache shows it.
type view = ownercache.View[*v1beta1.ImagePullJob]

// Setup adds the controller to the manager. The controller writes with c, and reads Secrets with the manager's API
// reader. The scheme must contain the types of this group. The function Row determines which fields of Secrets the
// manager's cache keeps.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.cache.AddController(mgr, "imagepulljob", r, r.options.Loop(r.options.Workers, r.watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	r := &Reconciler{fanout: fanout.New(options.Calls), events: mgr.GetEventRecorderFor(ControllerName), options: options}
	sources, err := r.index(ctx, mgr)
	if err != nil {
		return nil, err
	}
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.ImagePullJob{}, options.Options, ownercache.Options{Owned: sources, Namespace: options.Namespace})
	if err != nil {
		return nil, err
	}
	r.settings = ownercache.NewMemo(r.cache, newRules(options.KeepSeconds, options.Registries).settingsOf)
	r.synced = ownercache.NewMemory[synced](r.cache)
	r.memory = ownercache.NewMemory[memory](r.cache)
	r.told = kruise.NewTold(r.cache, r.events)
	r.cache.OnGone(r.fanout.Backoff.Forget)
	return r, nil
}

// index creates the indexes. index also returns the kinds whose caches must be recent enough before a reconcile
// decides: at start-up, and after each write of such a kind.
func (r *Reconciler) index(ctx context.Context, mgr kruise.Manager) (sources []trackedclient.Source, err error) {
	informers := mgr.GetCache()
	if r.images, err = ownercache.NewIndex(ctx, informers, &v1beta1.NodeImage{}); err != nil {
		return nil, err
	}
	if r.nodes, err = ownercache.NewIndex(ctx, informers, &corev1.Node{}); err != nil {
		return nil, err
	}
	if r.pods, err = ownercache.NewIndex(ctx, informers, &corev1.Pod{}); err != nil {
		return nil, err
	}
	if r.secrets, err = ownercache.NewIndex[client.Object](ctx, informers, secretMetadata()); err != nil {
		return nil, err
	}
	if err := r.images.Ensure(claimIndex, byClaim); err != nil {
		return nil, err
	}
	for name, keys := range map[string]func(client.Object) []string{holderIndex: byHolder, sourceIndex: bySource} {
		if err := r.secrets.Ensure(name, keys); err != nil {
			return nil, err
		}
	}
	source := func(kind schema.GroupVersionKind, resource string, index trackedclient.Index) trackedclient.Source {
		store := expectations.Store{GroupResource: schema.GroupResource{Group: kind.Group, Resource: resource}}
		return trackedclient.Source{Store: store, Kind: kind, Index: index}
	}
	return []trackedclient.Source{
		source(v1beta1.GroupVersion.WithKind("NodeImage"), "nodeimages", r.images), trackedclient.Nodes(r.nodes), trackedclient.Pods(r.pods),
		source(corev1.SchemeGroupVersion.WithKind("Secret"), "secrets", r.secrets),
	}, nil
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
	if s.Problems != nil && !hasEnded(v.Owner) {
		return pass.Result(reason.Final(s.Problems), r.endPods(ctx, v, pass), r.write(ctx, v, refused(v.Owner, s.Problems, v.Now)))
	}
	if hasEnded(v.Owner) {
		return pass.Result(r.end(ctx, v, pass, s))
	}
	return pass.Result(r.run(ctx, v, pass, s))
}

// run takes the next step of a running job.
func (r *Reconciler) run(ctx context.Context, v *view, pass *fanout.Pass, s *settings) error {
	kubelets := r.isThroughKubelet(v.Owner)
	secrets, err := r.secretsOf(ctx, v, pass, s, kubelets)
	if err != nil {
		if !apierrors.IsConflict(err) {
			r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventPullSecretUnused, err.Error())
		}
		return err
	}
	selected := r.selected(v.Owner, s, kubelets)
	d, err := r.decide(&observation{
		Job: v.Owner, Settings: s, Selected: selected, Targets: r.targets(s, selected, kubelets), Missing: r.missing(s),
		Claimed: r.images.By(claimIndex, string(v.Owner.UID)), Secrets: secrets, Now: v.Now,
	})
	if err != nil {
		return err
	}
	pass.Wake(d.After)
	if since := r.unserved.Load(); since != nil && kubelets {
		pass.Wake(max(since.Add(unservedFor).Sub(v.Now), 0))
	}
	if d.Step.State == completion.Running {
		err = errors.Join(r.act(ctx, v, pass, s, d, secrets), r.runPods(ctx, v, pass, d))
	}
	// If the job ends here, the next reconcile releases the copies of Secrets. By then the cache shows the copies
	// made in this reconcile.
	return errors.Join(err, r.write(ctx, v, d.Status))
}

// decide adds the Pods of the job to an observation, and calls the function decide.
func (r *Reconciler) decide(o *observation) (d *decision, err error) {
	if o.Puller, err = r.puller(o.Job); err != nil {
		return nil, reason.Final(fmt.Errorf("pulls through kubelets: %w", err))
	}
	o.Pods, o.Memory = r.podsOf(o.Job, o.Puller), r.memory.Of(o.Job.UID)
	o.IsResting = r.fanout.Backoff.Rest(o.Job.UID, o.Now, createPods()) > 0
	return decide(o), nil
}

// runPods writes the Pods of a running job. If Pods cannot be created, the status says why, and Nodes without a Pod
// do not count as active.
func (r *Reconciler) runPods(ctx context.Context, v *view, pass *fanout.Pass, d *decision) error {
	made, createErr, err := r.actOnPods(ctx, v, pass, d)
	if createErr != nil || made > 0 {
		d.Memory.isShort = isOverQuota(createErr)
	}
	r.memory.Change(v.Owner.UID, func(m *memory) { *m = d.Memory })
	if createErr != nil || made > 0 || len(d.Create) == 0 {
		set(&d.Status.Conditions, apps.ConditionFailedCreatePod, v.Owner.Generation, createErr, metav1.NewTime(v.Now))
	}
	if createErr != nil {
		d.Status.Active -= min(d.Status.Active, int32(len(d.Create)-made))
	}
	r.told.Created(v.Owner, made, "", createErr)
	return errors.Join(createErr, err)
}

// endPods deletes all Pods of a job whose spec has become invalid, because the image for the Pods cannot be read from
// the spec.
func (r *Reconciler) endPods(ctx context.Context, v *view, pass *fanout.Pass) error {
	d := &decision{}
	for _, pod := range r.pods.Of(v.Owner.Namespace, v.Owner.UID) {
		if pod.DeletionTimestamp == nil {
			d.Delete = append(d.Delete, pod)
		}
	}
	_, _, err := r.actOnPods(ctx, v, pass, d)
	return err
}

// end cleans up after a job that has ended, and deletes the job when its TTL has passed.
func (r *Reconciler) end(ctx context.Context, v *view, pass *fanout.Pass, s *settings) error {
	if err := r.letGo(ctx, v, pass); err != nil {
		return err
	}
	if s.Problems != nil {
		return r.endPods(ctx, v, pass) // the TTL of an invalid job is ignored
	}
	d, err := r.decide(&observation{Job: v.Owner, Settings: s, Now: v.Now})
	if err != nil {
		return err
	}
	pass.Wake(d.After)
	if !d.Step.Remove {
		_, _, err := r.actOnPods(ctx, v, pass, d)
		return err
	}
	return pass.Once(ctx, fanout.Task{Name: "delete the job"}, func() (bool, error) {
		uid, version := v.Owner.UID, v.Owner.ResourceVersion
		err := v.Client.Delete(ctx, v.Owner, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		return err == nil, client.IgnoreNotFound(err)
	})
}

// write writes the status if it has changed, and sends events about failed Nodes and invalid values.
func (r *Reconciler) write(ctx context.Context, v *view, status v1beta1.ImagePullJobStatus) error {
	if _, err := v.WriteStatus(ctx, status); err != nil {
		return err
	}
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventPullImageFailed, failed(&status))
	return nil
}
