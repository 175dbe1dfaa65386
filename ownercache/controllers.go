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

// ControllerOptions say how a controller processes its queue. Namespaces take turns in the queue, so a namespace with
// thousands of owners does not keep the other namespaces waiting (package fairqueue).
type ControllerOptions struct {
	// Workers is the number of objects of a namespace reconciled at the same time; 0 means 1. All other namespaces
	// together have the same number of workers, but at least eight, so slow webhooks in some namespaces do not delay
	// other namespaces.
	Workers int
	// RateLimiter says when a failed request is retried. If nil, each namespace has a limiter of controller-runtime's
	// default kind.
	RateLimiter workqueue.TypedRateLimiter[ctrl.Request]
	// Numbered says that Pods have ordinals: a Pod without a controller also enqueues the owner if the Pod has the name of
	// one of the owner's Pods. Numbered has no effect in AddPodController.
	Numbered bool
	// Watch adds event sources: WatchNodes, WatchOrphans, WatchStatus, several sources combined with Watches, or the
	// caller's own; nil for none. Watch is required if Options.Nodes is set, because no other source enqueues owners on
	// changes of Nodes.
	Watch func(*builder.Builder) *builder.Builder
}

// Queue returns the options of a controller that the caller builds without AddController.
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

// AddController adds the controller of the owners to the manager. Changes of an owner's spec, labels and annotations
// enqueue the owner, but changes of its status do not. Events of its Pods and claims, of the claims of its numbered
// Pods (recognised by name, pvc.Numbered), and calls of Wake also enqueue the owner. For an owner with 250 Pods or
// more, the time between the beginnings of two reconciles is at least 50 us for each Pod: 0.5 s for 10,000 Pods.
// Events that arrive in between lead to a single reconcile.
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

// AddPodController adds a second controller, for the owners' Pods. A Pod's own events enqueue the Pod. If after
// returns true for the Pod, a change of the owner's spec also enqueues the Pod: with the new spec, a different hook
// may hold the Pod, or a refused write may be accepted.
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

// forgetful is a reconciler that calls the functions of OnGone after a reconcile whose object was deleted in the
// meantime. The reconcile may have made records about the object after the event of the deletion, and no other event
// follows.
type forgetful[O client.Object] struct {
	cache *Cache[O]
	inner reconcile.Reconciler
	of    func(ctrl.Request) (client.Object, bool)
}

// Reconcile calls the wrapped reconciler, and then removes the records about the object if the object was deleted.
func (f *forgetful[O]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object, ok := f.of(req)
	result, err := f.inner.Reconcile(ctx, req)
	if ok && !f.cache.exists(object.GetUID()) {
		f.cache.drop(object)
	}
	return result, err
}

// Wake requeues an owner soon. Call Wake after the loop of its Pods has found a change that no event reports.
func (c *Cache[O]) Wake(owner client.Object) {
	// If the queue is nil, the controller has not started yet, and will reconcile all owners when it starts.
	if q := c.queue.Load(); q != nil {
		(*q).Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
	}
}
