package persistentpodstate

import (
	"context"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// targetIndex is the index of PersistentPodStates by their target, and nodeIndex the index of Pods by their Node.
const (
	targetIndex = "workloadkit/persistentpodstate-target"
	nodeIndex   = "workloadkit/persistentpodstate-node"
)

// byNode returns the index keys of a Pod that may have a record. Pods without a Node have the empty key.
func byNode(pod *corev1.Pod) []string {
	if _, _, ok := controllerOf(pod); !ok {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// watch adds event sources: PersistentPodStates are enqueued on events of their Pods, of the Pods' Nodes, and of their
// targets.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	return b.Watches(&corev1.Pod{}, r.podEvents()).Watches(&corev1.Node{}, r.nodeEvents()).
		Watches(&appsv1.StatefulSet{}, r.targetEvents(api.BuiltIn())).
		Watches(&v1beta1.StatefulSet{}, r.targetEvents(api.Advanced()))
}

// statesOf returns the PersistentPodStates whose target controls a Pod.
func (r *Reconciler) statesOf(object client.Object) []*v1beta1.PersistentPodState {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	kind, name, ok := controllerOf(pod)
	if !ok {
		return nil
	}
	return r.cache.Owners.By(targetIndex, targetKey(kind, pod.Namespace, name))
}

func (r *Reconciler) podEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, r.statesOf(e.Object)) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, r.statesOf(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, alsoOK := e.ObjectNew.(*corev1.Pod)
			if !ok || !alsoOK {
				return
			}
			for _, state := range r.statesOf(after) {
				if before.UID != after.UID || matters(&state.Spec, before, after) {
					add(q, []*v1beta1.PersistentPodState{state})
				}
			}
		},
	}
}

// nodeEvents returns a handler that enqueues PersistentPodStates when the labels of a Node change: the
// PersistentPodStates for the Pods on the Node, and for Pods that are not scheduled yet.
func (r *Reconciler) nodeEvents() handler.EventHandler {
	wake := func(q queue, node client.Object) {
		for _, name := range []string{node.GetName(), ""} {
			for _, pod := range r.pods.By(nodeIndex, name) {
				add(q, r.statesOf(pod))
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				wake(q, e.ObjectNew)
			}
		},
	}
}

// targetEvents returns a handler that enqueues the PersistentPodStates of a workload of the given kind. Events that
// change only the workload's status are frequent, and are ignored.
func (r *Reconciler) targetEvents(kind schema.GroupKind) handler.EventHandler {
	wake := func(q queue, object client.Object) {
		add(q, r.cache.Owners.By(targetIndex, targetKey(kind, object.GetNamespace(), object.GetName())))
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
				(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) {
				wake(q, e.ObjectNew)
			}
		},
	}
}

// workloadChanged enqueues the PersistentPodStates of a workload of a configured kind. If a kind has just become known,
// the PersistentPodStates of all its workloads are enqueued.
func (r *Reconciler) workloadChanged(kind schema.GroupKind, object client.Object) {
	if object != nil {
		for _, state := range r.cache.Owners.By(targetIndex, targetKey(kind, object.GetNamespace(), object.GetName())) {
			r.cache.Wake(state)
		}
		return
	}
	for _, state := range r.cache.Owners.All() {
		if is, err := api.TargetKind(state.Spec.TargetReference); err == nil && is == kind {
			r.cache.Wake(state)
		}
	}
}

// large is the number of records above which PersistentPodStates are enqueued with a delay, and perRecord is the
// delay per record.
const (
	large     = 250
	perRecord = 50 * time.Microsecond
)

// add enqueues PersistentPodStates, with a delay if there are many records. For each write, the API server stores the
// whole object, so events are collected for a while: half a second with 10,000 records.
func add(q queue, states []*v1beta1.PersistentPodState) {
	for _, state := range states {
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(state)}
		if n := len(state.Status.PodStates); n >= large {
			q.AddAfter(request, time.Duration(n)*perRecord)
			continue
		}
		q.Add(request)
	}
}
