package ephemeraljob

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podstate"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// gather is how long events of Pods are collected before a job is reconciled, because a reconciliation reads all Pods
// of a namespace.
const gather = 100 * time.Millisecond

// watch adds event sources: jobs are enqueued when Pods are created or deleted, change their labels, or report
// containers.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	return b.Watches(&corev1.Pod{}, handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.wake(q, e.Object, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { r.wake(q, e.Object, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, alsoOK := e.ObjectNew.(*corev1.Pod)
			if ok && alsoOK && changed(before, after) {
				r.wake(q, before, after)
			}
		},
	})
}

// changed reports whether the change of a Pod may matter to a job.
func changed(before, after *corev1.Pod) bool {
	return before.UID != after.UID || podstate.IsActive(before) != podstate.IsActive(after) ||
		!maps.Equal(before.Labels, after.Labels) || len(before.Spec.EphemeralContainers) != len(after.Spec.EphemeralContainers) ||
		!apiequality.Semantic.DeepEqual(before.Status.EphemeralContainerStatuses, after.Status.EphemeralContainerStatuses)
}

// wake enqueues the jobs whose selector matches a Pod, before or after a change of the Pod.
func (r *Reconciler) wake(q queue, before, after client.Object) {
	for _, job := range r.cache.Owners.In(after.GetNamespace()) {
		if job.Status.Finished() {
			continue
		}
		selector := r.settings.Of(job).selector
		if selector.Matches(labels.Set(before.GetLabels())) || selector.Matches(labels.Set(after.GetLabels())) {
			q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}, gather)
		}
	}
}

// podFields copies, for the cache, the fields that jobs read of Pods of other owners: the names of ephemeral
// containers, the UID of a job in their environment, and their states.
func podFields(kept, pod *corev1.Pod) {
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		short := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name}}
		for _, env := range c.Env {
			if env.Name == apps.EnvEphemeralJobID {
				short.Env = append(short.Env, env)
			}
		}
		kept.Spec.EphemeralContainers = append(kept.Spec.EphemeralContainers, short)
	}
	for i := range pod.Status.EphemeralContainerStatuses {
		status := &pod.Status.EphemeralContainerStatuses[i]
		kept.Status.EphemeralContainerStatuses = append(kept.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: status.Name, State: status.State})
	}
}
