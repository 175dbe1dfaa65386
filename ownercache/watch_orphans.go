package ownercache

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// WatchOrphans returns a ControllerOptions.Watch that enqueues owners for selected Pods without a controller, for
// adoption: a Pod's own events enqueue only its controller. Such a Pod enqueues an owner when the Pod is created, when
// its labels change, and when its controller releases the Pod. WatchOrphans calls selects for the owners in the Pod's
// namespace; if selects is nil, every owner is enqueued. selects must be safe for concurrent use.
func WatchOrphans[O client.Object](cache *Cache[O], selects func(owner O, pod *corev1.Pod) bool) func(*builder.Builder) *builder.Builder {
	return func(b *builder.Builder) *builder.Builder {
		return b.Watches(&corev1.Pod{}, orphanEvents(cache, selects))
	}
}

func orphanEvents[O client.Object](cache *Cache[O], selects func(owner O, pod *corev1.Pod) bool) handler.EventHandler {
	return onEvents(func(q queue, before, after client.Object) {
		pod, ok := after.(*corev1.Pod)
		if !ok || !isOrphan(pod) || pod.DeletionTimestamp != nil {
			return
		}
		if before != nil && isOrphan(before) && maps.Equal(before.GetLabels(), pod.Labels) {
			return
		}
		for _, owner := range cache.Owners.All() {
			if owner.GetNamespace() == pod.Namespace && (selects == nil || selects(owner, pod)) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
			}
		}
	})
}

func isOrphan(obj client.Object) bool { return metav1.GetControllerOfNoCopy(obj) == nil }
