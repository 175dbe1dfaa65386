package workloadspread

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// gather is how long events are collected before a WorkloadSpread is reconciled, because a reconciliation reads all
// Pods of the target and may write the status.
const gather = 500 * time.Millisecond

// watch adds event sources: WorkloadSpreads are enqueued on events of their Pods and of the workloads between the
// Pods and the target, and when webhooks record new Pods in the status.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	events := func(wake func(context.Context, queue, client.Object)) handler.EventHandler {
		return handler.Funcs{
			CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, e.Object) },
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, e.Object) },
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, q, e.ObjectNew) },
		}
	}
	b = b.Watches(&corev1.Pod{}, events(r.podSeen)).Watches(&v1beta1.WorkloadSpread{}, handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			statusChanged(ctx, e, q)
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				r.rivalChanged(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { r.rivalChanged(q, e.Object) },
	})
	for _, kind := range workloads.Kinds() {
		b = b.Watches(kind, events(func(_ context.Context, q queue, object client.Object) {
			chain, _ := r.owners.Above(object)
			add(q, r.named(object.GetNamespace(), append(chain, r.owners.RefTo(object))...)...)
		}))
	}
	return b
}

// podSeen enqueues the WorkloadSpreads whose targets are among the controllers above a Pod. The WorkloadSpread that
// the Pod's mark names is enqueued as well, because a deleted controller may already be missing in the cache. An
// event handler must not wait for the API server, which alone may know the controllers above a controller of a
// configured kind. So for such a controller, all WorkloadSpreads whose target may be above the controller are
// enqueued.
func (r *Reconciler) podSeen(_ context.Context, q queue, object client.Object) {
	pod, ok := object.(*corev1.Pod)
	if !ok || len(r.spreads.In(pod.Namespace)) == 0 {
		return
	}
	chain, _ := r.owners.Above(pod)
	add(q, r.named(pod.Namespace, chain...)...)
	m, isMarked := marked(pod)
	for _, spread := range r.spreads.In(pod.Namespace) {
		if isMarked && m.Name == spread.Name || r.isBelow(spread, chain) {
			add(q, spread)
		}
	}
}

// isBelow reports whether the last controller in chain, the known controllers above a Pod, may belong to the target
// of a WorkloadSpread.
func (r *Reconciler) isBelow(spread *v1beta1.WorkloadSpread, chain []workloads.Ref) bool {
	if len(chain) == 0 {
		return false
	}
	ref := &spread.Spec.TargetReference
	target, ok := r.targetOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind())
	return ok && slices.ContainsFunc(target.SubResources, func(between schema.GroupVersionKind) bool {
		return between.GroupKind() == chain[len(chain)-1].GroupKind
	})
}

// statusChanged enqueues a WorkloadSpread after its status was written: a Pod that a webhook has recorded may never
// be created, and the next reconciliation reverts users' changes of the status.
func statusChanged(_ context.Context, e event.UpdateEvent, q queue) {
	before, ok := e.ObjectOld.(*v1beta1.WorkloadSpread)
	after, same := e.ObjectNew.(*v1beta1.WorkloadSpread)
	if ok && same && !equality.Semantic.DeepEqual(before.Status, after.Status) {
		add(q, after)
	}
}

func add(q queue, spreads ...*v1beta1.WorkloadSpread) {
	for _, spread := range spreads {
		q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(spread)}, gather)
	}
}
