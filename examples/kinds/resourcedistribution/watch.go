package resourcedistribution

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watch adds event sources: ResourceDistributions are enqueued on events of namespaces, and of objects with the names
// of their copies.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	for _, kind := range []string{api.ConfigMap, api.Secret} {
		b = b.Watches(metadataOf(kind), r.copyEvents(kind))
	}
	return b.Watches(&corev1.Namespace{}, handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { r.wakeAll(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { r.wakeAll(q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
				(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
				e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				r.wakeAll(q)
			}
		},
	})
}

// copyEvents returns a handler that enqueues the ResourceDistributions that control an object, or want a copy with the
// object's name.
func (r *Reconciler) copyEvents(kind string) handler.EventHandler {
	wake := func(q queue, objects ...client.Object) {
		woken := sets.New[string]()
		for _, object := range objects {
			if name := ownerOf(object); name != "" {
				woken.Insert(name)
			}
			woken = woken.Union(ownerNames(r.cache.Owners.By(resourceIndex, resourceKey(kind, object.GetName()))))
		}
		wakeEach(q, woken)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, after := ownerOf(e.ObjectOld), ownerOf(e.ObjectNew)
			if before == "" && after == "" || e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
				return // another owner controls the object, or nothing has changed
			}
			wake(q, e.ObjectOld, e.ObjectNew)
		},
	}
}

// resourceIndex is the index of ResourceDistributions by kind and name of their resource.
const resourceIndex = "workloadkit/resource"

func byResource(owner *v1beta1.ResourceDistribution) []string {
	return []string{resourceKey(api.Named(owner.Spec.Resource.Raw))}
}

func resourceKey(kind, name string) string { return kind + "/" + name }

// wakeAll enqueues all ResourceDistributions. A cluster has few ResourceDistributions, and reconciling one without work
// sends no request.
func (r *Reconciler) wakeAll(q queue) { wakeEach(q, ownerNames(r.cache.Owners.All())) }

func ownerNames(owners []*v1beta1.ResourceDistribution) sets.Set[string] {
	out := sets.New[string]()
	for _, owner := range owners {
		out.Insert(owner.Name)
	}
	return out
}

// wakeEach enqueues each owner once, sorted by name. If a name were added twice, a worker could take the name from
// the queue between the two additions, and the ResourceDistribution would be reconciled twice.
func wakeEach(q queue, owners sets.Set[string]) {
	for _, name := range sets.List(owners) {
		q.Add(requestFor(name))
	}
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// keepOwner copies into the cache the metadata of a ConfigMap or Secret that the controller reads. For an object that
// no ResourceDistribution controls, the cache keeps only namespace, name, UID and resourceVersion.
func keepOwner(kept, found client.Object) {
	if ownerOf(found) != "" {
		kept.SetOwnerReferences(found.GetOwnerReferences())
		kept.SetDeletionTimestamp(found.GetDeletionTimestamp())
	}
}
