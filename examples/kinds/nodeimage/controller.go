package nodeimage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "nodeimage-controller"

// Options are the options of the controller. The zero value is valid.
type Options struct {
	kruise.Options
	// CreationDelay is how long a Node must have been ready before the NodeImage is created; nil means 30 s.
	CreationDelay *time.Duration
}

// Reconciler reconciles Nodes: a NodeImage belongs to the Node of the same name.
type Reconciler struct {
	cache  *ownercache.Cache[*corev1.Node]
	images *ownercache.Index[*v1beta1.NodeImage]
	jobs   *ownercache.Index[*v1beta1.ImagePullJob]
	client client.Client
	fanout *fanout.Fanout

	options Options
}

// view is a Node as the cache shows it.
type view = ownercache.View[*corev1.Node]

// Setup adds the controller to the manager. The controller writes with c, and c must read from the manager's cache. The
// scheme must contain the types of NodeImages and ImagePullJobs, and the cache must keep the condition Ready of Nodes.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.cache.AddController(mgr, "nodeimage", r, r.options.Loop(r.options.Workers, r.watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options.Options = options.Complete()
	if options.CreationDelay == nil {
		options.CreationDelay = new(defaultDelay)
	}
	r := &Reconciler{client: c, fanout: fanout.New(options.Calls), options: options}
	var err error
	if r.images, err = ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.NodeImage{}); err != nil {
		return nil, err
	}
	if err := r.images.Add(ownerIndex, byOwner); err != nil {
		return nil, err
	}
	if r.jobs, err = ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.ImagePullJob{}); err != nil {
		return nil, err
	}
	images, jobs := sourceOf("NodeImage", "nodeimages", r.images), sourceOf("ImagePullJob", "imagepulljobs", r.jobs)
	if options.Namespace != "" {
		jobs.Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
	}
	// The cache of ImagePullJobs must be up to date before the controller removes the tags of a job that the cache
	// does not contain.
	r.cache, err = kruise.NewCache(ctx, mgr, c, &corev1.Node{}, options.Options, ownercache.Options{Owned: []trackedclient.Source{images, jobs}})
	if err != nil {
		return nil, err
	}
	r.cache.OnGone(r.fanout.Backoff.Forget)
	return r, nil
}

func sourceOf(kind, resource string, index trackedclient.Index) trackedclient.Source {
	store := expectations.Store{GroupResource: schema.GroupResource{Group: apps.Group, Resource: resource}}
	return trackedclient.Source{Store: store, Kind: v1beta1.GroupVersion.WithKind(kind), Index: index}
}

// Reconcile creates, tidies or deletes the NodeImage of a Node.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if err != nil {
		return result, err
	}
	image, _ := r.images.Get("", req.Name)
	if v == nil {
		if _, exists := r.cache.Owners.Get("", req.Name); !exists && isOurs(image) {
			return result, r.removeOrphan(ctx, image)
		}
		return result, nil
	}
	pass := r.fanout.Begin(v)
	d := decide(&observation{Node: v.Owner, Image: image, Delay: *r.options.CreationDelay, Exists: r.exists, Runs: r.runs, Now: v.Now})
	pass.Wake(d.After)
	return pass.Result(pass.Once(ctx, fanout.Task{Name: "write the NodeImage"}, func() (bool, error) {
		return r.write(ctx, v, image, d)
	}))
}

// exists reports whether the owner of a tag exists. Owners that are never in the cache count as existing: owners of
// other kinds, and jobs in namespaces that are not cached.
func (r *Reconciler) exists(ref corev1.ObjectReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Group != apps.Group || ref.Kind != "ImagePullJob" || r.options.Namespace != "" && r.options.Namespace != ref.Namespace {
		return true
	}
	_, exists := r.jobs.ByUID(ref.UID)
	return exists
}

// runs reports whether the owner of a tag is a job that has not ended. The result is false for a job with the
// completion policy Never, because such a job writes the tag again.
func (r *Reconciler) runs(ref corev1.ObjectReference) bool {
	job, exists := r.jobs.ByUID(ref.UID)
	return exists && !hasEnded(job) && job.Spec.CompletionPolicy.Type != v1beta1.Never
}

func hasEnded(job *v1beta1.ImagePullJob) bool { return job.Status.CompletionTime != nil }

// write carries out a decision.
func (r *Reconciler) write(ctx context.Context, v *view, image *v1beta1.NodeImage, d decision) (changed bool, err error) {
	var action string
	switch {
	case d.Delete:
		action, err = "deleted", remove(ctx, v.Client, image)
	case d.Create != nil:
		action, err = "created", v.Client.Create(ctx, d.Create)
		if apierrors.IsAlreadyExists(err) {
			return false, nil // the event about the existing NodeImage enqueues the Node
		}
	case d.Change != nil:
		patch := client.MergeFromWithOptions(image, client.MergeFromWithOptimisticLock{})
		action, err = "updated", client.IgnoreNotFound(v.Client.Patch(ctx, d.Change, patch))
	default:
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("NodeImage %s: %w", v.Owner.Name, err)
	}
	r.options.Metrics.Done(action, 1)
	return true, nil
}

func remove(ctx context.Context, c client.Client, image *v1beta1.NodeImage) error {
	uid := image.UID
	return client.IgnoreNotFound(c.Delete(ctx, image.DeepCopy(), client.Preconditions{UID: &uid}))
}

// removeOrphan deletes a NodeImage without a Node. The API server must confirm that the Node does not exist, because
// the cache may not show a new Node yet.
func (r *Reconciler) removeOrphan(ctx context.Context, image *v1beta1.NodeImage) error {
	err := r.cache.APIReader().Get(ctx, client.ObjectKey{Name: image.Name}, &corev1.Node{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	if err := remove(ctx, r.client, image); err != nil {
		return fmt.Errorf("NodeImage %s of a Node that is gone: %w", image.Name, err)
	}
	r.options.Metrics.Done("deleted", 1)
	return nil
}
