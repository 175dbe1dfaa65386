package ownercache

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// AddPodLoop adds a controller to a manager for all Pods that wanted accepts, whoever owns the Pods. Events of a
// wanted Pod enqueue the Pod. When wanted no longer accepts the Pod, or the Pod is deleted, the Pod is enqueued a
// last time, so that the reconciler can remove its records of the Pod.
func AddPodLoop(mgr manager.Manager, name string, r reconcile.Reconciler, wanted func(*corev1.Pod) bool, o ControllerOptions) error {
	if r == nil || wanted == nil {
		return fmt.Errorf("ownercache: controller %s needs a reconciler, and to know the wanted Pods", name)
	}
	is := func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && wanted(pod)
	}
	b := builder.ControllerManagedBy(mgr).Named(name).
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc:  func(e event.CreateEvent) bool { return is(e.Object) },
			UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectNew) || is(e.ObjectOld) },
			DeleteFunc:  func(e event.DeleteEvent) bool { return is(e.Object) },
			GenericFunc: func(event.GenericEvent) bool { return false },
		}))
	if err := o.complete(b, r); err != nil {
		return fmt.Errorf("adding controller %s: %w", name, err)
	}
	return nil
}
