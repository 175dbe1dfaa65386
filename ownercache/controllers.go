package ownercache

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/workloadkit/workloadkit/ownercache/fairqueue"
)

// ControllerOptions say how a controller works through its queue. Namespaces take turns in the queue, so a namespace
// with thousands of owners does not keep the other namespaces waiting (package fairqueue).
type ControllerOptions struct {
	// Workers is the number of objects of a namespace reconciled side by side; 0 means 1. The other namespaces have as
	// many workers again, and at least eight, so slow webhooks in some namespaces do not hold up the rest.
	Workers int
	// RateLimiter says when to try a failed request again. Nil stands for controller-runtime's limiter, separate for each
	// namespace.
	RateLimiter workqueue.TypedRateLimiter[ctrl.Request]
	// Numbered says that Pods have ordinals: an owner is also woken by uncontrolled Pods with a name of its own Pods.
	// Numbered has no use in the Pods' own loop.
	Numbered bool
	// Watch adds event sources: WatchNodes, WatchOrphans, WatchStatus, several of them with Watches, or the
	// caller's own; nil for none. Required for owners with Options.Nodes, because no other source wakes them for a Node.
	Watch func(*builder.Builder) *builder.Builder
}

// Queue returns the options of a loop that package ownercache does not add.
func (o ControllerOptions) Queue() controller.Options {
	out := controller.Options{RateLimiter: o.RateLimiter}
	workers := max(o.Workers, 1)
	out.MaxConcurrentReconciles = workers + max(workers, 8)
	out.NewQueue = fairqueue.New(workers, out.MaxConcurrentReconciles)
	if out.RateLimiter == nil {
		out.RateLimiter = fairqueue.PerNamespace(nil)
	}
	return out
}

func (o ControllerOptions) complete(b *builder.Builder, r reconcile.Reconciler) error {
	b = b.WithOptions(o.Queue())
	if o.Watch != nil {
		b = o.Watch(b)
	}
	return b.Complete(RetryConflicts(r))
}

// AddController adds the loop of the owners to the manager. Changes of its spec, labels and annotations wake an owner,
// but changes of its status do not. Its Pods, its claims, the claims of its numbered Pods by their names (pvc.Numbered)
// and Wake also wake the owner. For an owner with 250 Pods or more, consecutive passes begin at least 50 us per Pod
// apart, 0.5 s for 10,000 Pods. Events in between are gathered.
func (c *Cache[O]) AddController(mgr manager.Manager, name string, r reconcile.Reconciler, o ControllerOptions) error {
	if c.Nodes != nil && o.Watch == nil {
		return fmt.Errorf("ownercache: controller %s has Options.Nodes, and nothing that wakes its owners for a Node: give ControllerOptions.Watch, WatchNodes for example", name)
	}
	if len(c.options.Owned) > 0 && (o.Watch == nil || o.Numbered) {
		return fmt.Errorf("ownercache: controller %s has Options.Owned, and nothing that wakes its owners for it: give ControllerOptions.Watch, without Numbered", name)
	}
	if r == nil {
		return fmt.Errorf("ownercache: controller %s needs a reconciler", name)
	}
	b := builder.ControllerManagedBy(mgr).
		Named(name).
		For(newOwner[O](), builder.WithPredicates(specEvents())).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			c.queue.Store(&q)
			return nil
		}))
	if c.Pods != nil {
		b = b.Watches(&corev1.Pod{}, c.podEvents())
	}
	if c.Claims != nil {
		b = b.Watches(&corev1.PersistentVolumeClaim{}, enqueueController(c.kind.GroupKind())).
			Watches(&corev1.PersistentVolumeClaim{}, c.numberedClaims()).
			Watches(&corev1.Pod{}, handler.Funcs{DeleteFunc: c.userGone})
	}
	if o.Numbered {
		b = b.Watches(&corev1.Pod{}, c.namesake())
	}
	if err := o.complete(b, c.forgetful(r)); err != nil {
		return fmt.Errorf("adding controller %s: %w", name, err)
	}
	return nil
}

func (c *Cache[O]) forgetful(r reconcile.Reconciler) reconcile.Reconciler {
	return &forgetful[O]{cache: c, inner: &paced[O]{c, r}, of: func(req ctrl.Request) (client.Object, bool) { return c.Owners.Get(req.Namespace, req.Name) }}
}

// AddPodController adds a second loop, for the owners' Pods. A Pod's own events wake the Pod and, if after reports
// true, so does a change of its owner's spec: another hook may hold the Pod, and a refused write may be accepted now.
func (c *Cache[O]) AddPodController(
	mgr manager.Manager, name string, r reconcile.Reconciler, after func(*corev1.Pod) bool, o ControllerOptions,
) error {
	if r == nil || after == nil {
		return errors.New("ownercache: a Pods' controller needs a reconciler, and to know which Pods depend on their owner's spec")
	}
	b := builder.ControllerManagedBy(mgr).
		Named(name).
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(c.owned())).
		Watches(newOwner[O](), c.specChanged(after))
	if err := o.complete(b, &forgetful[O]{cache: c, inner: r, of: func(req ctrl.Request) (client.Object, bool) {
		return c.Pods.Get(req.Namespace, req.Name)
	}}); err != nil {
		return fmt.Errorf("adding controller %s: %w", name, err)
	}
	return nil
}

// forgetful drops the notes of a reconcile whose object was deleted meanwhile: the deletion's event came before, and no
// other follows.
type forgetful[O client.Object] struct {
	cache *Cache[O]
	inner reconcile.Reconciler
	of    func(ctrl.Request) (client.Object, bool)
}

// Reconcile passes the request on.
func (f *forgetful[O]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object, ok := f.of(req)
	result, err := f.inner.Reconcile(ctx, req)
	if ok && !f.cache.exists(object.GetUID()) {
		f.cache.drop(object)
	}
	return result, err
}

// Wake has an owner reconciled soon, after news from the loop of its Pods: no event will wake the owner.
func (c *Cache[O]) Wake(owner client.Object) {
	if q := c.queue.Load(); q != nil { // else the controller has not started yet, and begins with all owners
		(*q).Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
	}
}
