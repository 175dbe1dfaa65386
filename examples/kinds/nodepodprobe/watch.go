package nodepodprobe

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/ownercache"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// add adds the controller to a manager. A Node is enqueued on events of the Node, of the Node's NodePodProbe, of Pods
// on the Node with probes or marks, and of the PodProbeMarkers for these Pods.
func (r *Reconciler) add(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodepodprobe").
		Watches(&v1alpha1.NodePodProbe{}, onAny(func(q queue, before, after client.Object) { wakeNode(q, after.GetName()) })).
		Watches(&corev1.Node{}, onAny(r.nodeChanged)).
		Watches(&corev1.Pod{}, onAny(r.podChanged)).
		Watches(&v1alpha1.PodProbeMarker{}, onAny(r.markerChanged)).
		WithOptions(r.options.Loop(r.options.Workers, nil).Queue()).
		Complete(ownercache.RetryConflicts(r))
}

// onAny returns a handler for all events; before is nil for a new object, and after is the last state of a deleted
// object.
func onAny(wake func(q queue, before, after client.Object)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, nil, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, nil, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wake(q, e.ObjectOld, e.ObjectNew) },
	}
}

func wakeNode(q queue, node string) {
	if node != "" {
		q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Name: node}}, gather)
	}
}

func (r *Reconciler) nodeChanged(q queue, before, after client.Object) {
	was, _ := before.(*corev1.Node)
	is, ok := after.(*corev1.Node)
	if ok && (was == nil || was.UID != is.UID || isReady(was) != isReady(is) || was.Labels[apps.LabelNodeType] != is.Labels[apps.LabelNodeType]) {
		wakeNode(q, is.Name)
	}
}

func (r *Reconciler) podChanged(q queue, before, after client.Object) {
	was, _ := before.(*corev1.Pod)
	is, ok := after.(*corev1.Pod)
	if !ok || was != nil && !changed(was, is) {
		return
	}
	if was == nil || is.DeletionTimestamp != nil {
		r.forget(is.UID)
	}
	book, err := r.currentBook()
	marked := is.Annotations[apps.AnnotationProbeMarks] != "" || was != nil && was.Annotations[apps.AnnotationProbeMarks] != ""
	probed := func(pod *corev1.Pod) bool { return r.hasLiveness(pod) || len(book.Of(pod)) > 0 }
	if err != nil || marked || probed(is) || was != nil && probed(was) {
		wakeNode(q, is.Spec.NodeName)
	}
}

// markerChanged enqueues the Nodes of all Pods that a PodProbeMarker selects before or after a change, and of all
// Pods with marks or with the annotation that names PodProbeMarkers.
func (r *Reconciler) markerChanged(q queue, before, after client.Object) {
	is, ok := after.(*v1alpha1.PodProbeMarker)
	if !ok {
		return
	}
	was, _ := before.(*v1alpha1.PodProbeMarker)
	if was != nil && was.UID == is.UID && (was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) && apiequality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return
	}
	now, _ := probes.Resolve(is)
	former := now
	if was != nil {
		former, _ = probes.Resolve(was)
	}
	for _, pod := range r.pods.In(is.Namespace) {
		_, listed := pod.Annotations[apps.AnnotationPodProbeMarkerList]
		set := labels.Set(pod.Labels)
		if listed || pod.Annotations[apps.AnnotationProbeMarks] != "" || now.Selector.Matches(set) || former.Selector.Matches(set) {
			wakeNode(q, pod.Spec.NodeName)
		}
	}
}
