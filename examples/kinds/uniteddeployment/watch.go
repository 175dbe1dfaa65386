package uniteddeployment

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// gather is how long events are collected before a UnitedDeployment is reconciled, because a reconciliation reads all
// of its Pods.
const gather = 100 * time.Millisecond

func workloadKinds() []client.Object {
	return []client.Object{&appsv1.StatefulSet{}, &v1beta1.StatefulSet{}, &v1beta1.CloneSet{}, &appsv1.Deployment{}}
}

// hasSubset reports whether an object has the label that names its subset. Workloads without this label are never
// adopted, because a workload may match the selector by chance.
func hasSubset(object metav1.Object) bool { return object.GetLabels()[apps.LabelSubsetName] != "" }

// watch adds event sources: UnitedDeployments are enqueued on events of their workloads and Pods, and of workloads that
// could be adopted.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	wake := func(q queue, object client.Object) {
		for _, name := range r.above(object) {
			q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}, gather)
		}
	}
	for _, kind := range append(workloadKinds(), &corev1.Pod{}) {
		b = b.Watches(kind, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object) },
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
				wake(q, e.ObjectOld)
				wake(q, e.ObjectNew)
			},
		})
	}
	return b
}

// above returns the names of the UnitedDeployments to which an object belongs or may belong. A workload without its
// label still belongs to its UnitedDeployment, whose controller then removes the owner reference and creates a new
// workload.
func (r *Reconciler) above(object client.Object) (names []string) {
	if !hasSubset(object) {
		ref := metav1.GetControllerOfNoCopy(object)
		if ref != nil && schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() == r.cache.Kind().GroupKind() {
			names = []string{ref.Name}
		}
		return names
	}
	chain, _ := r.owners.Above(object)
	for _, ref := range chain {
		if ref.GroupKind == r.cache.Kind().GroupKind() {
			return []string{ref.Name}
		}
	}
	if len(chain) == 0 {
		for _, ud := range r.cache.Owners.In(object.GetNamespace()) {
			names = append(names, ud.Name)
		}
	}
	return names
}
