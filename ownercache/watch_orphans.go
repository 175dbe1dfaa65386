package ownercache

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// WatchOrphans returns a ControllerOptions.Watch that wakes owners for selected Pods without a controller, for
// adoption: a Pod's own events wake only its controller. Such a Pod wakes an owner when the Pod appears, when its
// labels change, and when its controller releases the Pod. WatchOrphans calls selects for the owners of the Pod's
// namespace. selects must be safe for concurrent use.
func WatchOrphans[O client.Object](cache *Cache[O], selects func(owner O, pod *corev1.Pod) bool) func(*builder.Builder) *builder.Builder {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, obj client.Object) {
		pod, ok := obj.(*corev1.Pod)
		if !ok || !isOrphan(pod) || pod.DeletionTimestamp != nil {
			return
		}
		for _, owner := range cache.Owners.All() {
			if owner.GetNamespace() == pod.Namespace && selects(owner, pod) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
			}
		}
	}
	return func(b *builder.Builder) *builder.Builder {
		return b.Watches(&corev1.Pod{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
				if !isOrphan(e.ObjectOld) || !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
					wake(q, e.ObjectNew)
				}
			},
		})
	}
}

func isOrphan(obj client.Object) bool { return metav1.GetControllerOfNoCopy(obj) == nil }
