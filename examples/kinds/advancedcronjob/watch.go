package advancedcronjob

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watch enqueues an AdvancedCronJob on events of its jobs, whatever API version their owner references name.
func watch(b *builder.Builder) *builder.Builder {
	for _, k := range jobKinds() {
		b = b.Watches(k.empty, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object) },
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
				if !matters(e.ObjectOld, e.ObjectNew) {
					return
				}
				wake(q, e.ObjectNew)
				if ownerOf(e.ObjectOld) != ownerOf(e.ObjectNew) {
					wake(q, e.ObjectOld)
				}
			},
		})
	}
	return b
}

// matters reports whether the update of a job may change the next decision. Most updates only change the numbers of
// Pods in the job's status.
func matters(before, after client.Object) bool {
	was, _ := Read(before)
	is, _ := Read(after)
	return was.State != is.State || !was.Slot.Equal(is.Slot) || !was.Began.Equal(is.Began) || was.Ending() != is.Ending() ||
		before.GetUID() != after.GetUID() || ownerOf(before) != ownerOf(after)
}

func ownerOf(object client.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		return ref.UID
	}
	return ""
}

func wake(q queue, object client.Object) {
	if name, ours := controllerOf(object); ours {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}})
	}
}

// controllerOf returns the name of the AdvancedCronJob that controls an object, whatever API version the owner
// reference names.
func controllerOf(object metav1.Object) (name string, ours bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || ref.Kind != kindName {
		return "", false
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	return ref.Name, err == nil && version.Group == apps.Group
}

const kindName = "AdvancedCronJob"
