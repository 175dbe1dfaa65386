package nodeimage

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// ownerIndex is the index of NodeImages by the UIDs of the jobs that own tags.
const ownerIndex = "workloadkit/nodeimage-owner"

func byOwner(image *v1beta1.NodeImage) (keys []string) {
	for _, uid := range ownersOf(image) {
		keys = append(keys, string(uid))
	}
	return keys
}

// watch adds event sources: a Node is enqueued when the Node becomes ready or changes its labels, on events of the
// NodeImage, and when a job with tags in the NodeImage ends or is deleted.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	nodes := handler.Funcs{
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { enqueue(q, e.Object.GetName()) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, same := e.ObjectNew.(*corev1.Node)
			if ok && same && nodeChanged(before, after) {
				enqueue(q, after.Name)
			}
		},
	}
	images := handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(q, e.Object.GetName()) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { enqueue(q, e.Object.GetName()) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*v1beta1.NodeImage)
			after, same := e.ObjectNew.(*v1beta1.NodeImage)
			if ok && same && (!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status, after.Status) ||
				!maps.Equal(before.Labels, after.Labels)) {
				enqueue(q, after.Name)
			}
		},
	}
	jobs := handler.Funcs{
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { r.jobGone(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*v1beta1.ImagePullJob)
			after, same := e.ObjectNew.(*v1beta1.ImagePullJob)
			if ok && same && (before.UID != after.UID || hasEnded(before) != hasEnded(after)) {
				r.jobGone(q, before)
			}
		},
	}
	return b.Watches(&corev1.Node{}, nodes).Watches(&v1beta1.NodeImage{}, images).Watches(&v1beta1.ImagePullJob{}, jobs)
}

func nodeChanged(before, after *corev1.Node) bool {
	wasSince, wasReady := readySince(before)
	since, ready := readySince(after)
	return before.UID != after.UID || wasReady != ready || !wasSince.Equal(since) || !maps.Equal(before.Labels, after.Labels) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
}

func (r *Reconciler) jobGone(q queue, job client.Object) {
	for _, image := range r.images.By(ownerIndex, string(job.GetUID())) {
		enqueue(q, image.Name)
	}
}

func enqueue(q queue, name string) {
	q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
}

// keepNodeImage copies, for the cache, the fields of a NodeImage that controllers read.
func keepNodeImage(kept, found client.Object) {
	out, ok := kept.(*v1beta1.NodeImage)
	image, same := found.(*v1beta1.NodeImage)
	if !ok || !same {
		return
	}
	out.ObjectMeta = image.ObjectMeta
	out.Annotations, out.ManagedFields = nil, nil
	out.Spec, out.Status = image.Spec, image.Status
}
