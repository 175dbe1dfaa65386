package podprobemarker

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workloadkit/workloadkit/node/probing"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// gather is how long events of Pods are collected before a PodProbeMarker is reconciled, because a reconciliation
// reads all Pods of a namespace.
const gather = 100 * time.Millisecond

// watch adds event sources. A PodProbeMarker is enqueued when a selected Pod is created, deleted or relabeled, or
// when its probes can begin.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	return b.Watches(&corev1.Pod{}, handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.wake(q, e.Object, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { r.wake(q, e.Object, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, alsoOK := e.ObjectNew.(*corev1.Pod)
			if ok && alsoOK && (!maps.Equal(before.Labels, after.Labels) || probing.IsProbed(before) != probing.IsProbed(after)) {
				r.wake(q, before, after)
			}
		},
	})
}

// wake enqueues the PodProbeMarkers whose selector matches a Pod, before or after a change of the Pod.
func (r *Reconciler) wake(q queue, before, after client.Object) {
	for _, marker := range r.cache.Owners.In(after.GetNamespace()) {
		selector := r.resolved.Of(marker).Selector
		if selector.Matches(labels.Set(before.GetLabels())) || selector.Matches(labels.Set(after.GetLabels())) {
			q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(marker)}, gather)
		}
	}
}
