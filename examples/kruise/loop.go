package kruise

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/ownercache/fairqueue"
)

// LoopOptions are the queue options of a loop outside package ownercache. Namespaces take turns.
func LoopOptions(o Options) controller.Options {
	workers := max(o.Workers, 1)
	atOnce := workers + max(workers, 8) // as many again for further namespaces, as in ownercache.ControllerOptions
	queue := controller.Options{MaxConcurrentReconciles: atOnce, NewQueue: fairqueue.New(workers, atOnce), RateLimiter: fairqueue.PerNamespace(nil)}
	if o.RateLimiter != nil {
		queue.RateLimiter = o.RateLimiter()
	}
	return queue
}

// AddPodLoop adds a loop over the wanted Pods to a manager. The loop wakes for a wanted Pod, and once more when the Pod
// is no longer wanted or gone, so the loop can forget the Pod. Namespaces take turns.
func AddPodLoop(mgr manager.Manager, name string, r reconcile.Reconciler, wanted func(*corev1.Pod) bool, o Options) error {
	is := func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && wanted(pod)
	}
	err := builder.ControllerManagedBy(mgr).Named(name).WithOptions(LoopOptions(o)).
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc:  func(e event.CreateEvent) bool { return is(e.Object) },
			UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectNew) || is(e.ObjectOld) },
			DeleteFunc:  func(e event.DeleteEvent) bool { return is(e.Object) },
			GenericFunc: func(event.GenericEvent) bool { return false },
		})).
		Complete(ownercache.RetryConflicts(r))
	if err != nil {
		return fmt.Errorf("adding controller %s: %w", name, err)
	}
	return nil
}
