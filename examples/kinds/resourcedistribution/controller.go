package resourcedistribution

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "resourcedistribution-controller"

// Options are the options of the controller. The zero value is valid. If Namespace is set, as in tests, only this
// namespace gets a copy and is counted.
type Options = kruise.Options

// Reconciler reconciles ResourceDistributions.
type Reconciler struct {
	cache      *ownercache.Cache[*v1beta1.ResourceDistribution]
	copies     map[string]*ownercache.Index[client.Object] // by kind; the cache may contain only the metadata of copies
	namespaces *ownercache.Index[*corev1.Namespace]
	fanout     *fanout.Fanout
	events     record.EventRecorder
	options    Options
	known      *memory
}

// view is a ResourceDistribution as the cache shows it.
type view = ownercache.View[*v1beta1.ResourceDistribution]

// distributorIndex is the index of copies by the name of the ResourceDistribution that controls the copy.
const distributorIndex = "workloadkit/resourcedistribution"

// Setup adds the controller to the manager. The controller writes with c, and reads whole copies with the manager's
// API reader. The scheme must contain the ResourceDistribution types. The function Row determines which metadata of
// ConfigMaps and Secrets the cache keeps, because the labels and annotations of all ConfigMaps and Secrets would need
// much memory.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.cache.AddController(mgr, "resourcedistribution", r, r.options.Loop(r.options.Workers, r.watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{
		copies: map[string]*ownercache.Index[client.Object]{}, fanout: fanout.New(options.Calls), events: mgr.GetEventRecorderFor(ControllerName),
		options: options,
	}
	var sources []trackedclient.Source
	for _, of := range [][2]string{{api.ConfigMap, "configmaps"}, {api.Secret, "secrets"}} {
		kind, resource := of[0], of[1]
		index, err := ownercache.NewIndex[client.Object](ctx, mgr.GetCache(), metadataOf(kind))
		if err != nil {
			return nil, err
		}
		if err := index.Add(distributorIndex, byDistributor); err != nil {
			return nil, err
		}
		source := trackedclient.Source{
			Store: expectations.Store{GroupResource: schema.GroupResource{Resource: resource}}, Kind: corev1.SchemeGroupVersion.WithKind(kind), Index: index,
		}
		if options.Namespace != "" {
			source.Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
		}
		r.copies[kind], sources = index, append(sources, source)
	}
	var err error
	if r.namespaces, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Namespace{}); err != nil {
		return nil, err
	}
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.ResourceDistribution{}, options, ownercache.Options{Owned: sources})
	if err != nil {
		return nil, err
	}
	if err := r.cache.Owners.Add(resourceIndex, byResource); err != nil {
		return nil, err
	}
	r.known = newMemory(r.cache)
	return r, nil
}

// metadataOf returns an empty object of a kind, with which only metadata is read and watched.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return out
}

func byDistributor(object client.Object) []string {
	if name := ownerOf(object); name != "" {
		return []string{name}
	}
	return nil
}

// Reconcile takes the next step towards the copies that a ResourceDistribution's spec describes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // the garbage collector deletes the copies
		return result, err
	}
	pass := r.fanout.Begin(v)
	resource, targets, err := r.resolve(v.Owner)
	if err != nil {
		return r.refuse(ctx, v, pass, err)
	}
	todo := r.plan(v, resource, targets)
	err = r.act(ctx, v, pass, todo)
	_, statusErr := v.WriteStatus(ctx, r.report(v, todo))
	return pass.Result(err, statusErr)
}

// resolve parses the spec of a ResourceDistribution, which may have been stored while no admission checked objects.
func (r *Reconciler) resolve(owner *v1beta1.ResourceDistribution) (*api.Resource, targets, error) {
	if undecodable := owner.Spec.Undecodable; len(undecodable) > 0 {
		return nil, targets{}, undecodable[0]
	}
	s, problems, _ := resolve(&owner.Spec)
	if problems != nil {
		return nil, targets{}, problems.Reasons()
	}
	namespaces, spec := r.namespaces.All(), &owner.Spec.Targets
	if only := r.options.Namespace; only != "" {
		namespaces, spec = nil, within(only, spec)
		if namespace, ok := r.namespaces.Get("", only); ok {
			namespaces = []*corev1.Namespace{namespace}
		}
	}
	return s.resource, choose(spec, s.selector, namespaces, func(namespace string) bool {
		found, ok := r.copies[s.resource.Kind].Get(namespace, s.resource.Name)
		return ok && ownerOf(found) == owner.Name
	}), nil
}
