package ownercache

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ordinals"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueueController returns an event handler that enqueues the controller of a changed object. If the object has
// another controller than before the change, the handler enqueues both.
func enqueueController(kind schema.GroupKind) handler.EventHandler {
	enqueue := func(obj client.Object, q queue) {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil || !isKind(ref, kind) {
			return
		}
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(e.Object, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { enqueue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, after := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
			moved := (before == nil) != (after == nil) || (before != nil && before.UID != after.UID)
			if moved {
				enqueue(e.ObjectOld, q)
			}
			enqueue(e.ObjectNew, q)
		},
	}
}

// specEvents selects the changes of an owner that need a reconcile. Changes of the status are left out: otherwise each
// report of a failure would enqueue the owner again in spite of the back-off.
func specEvents() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return before.GetUID() != after.GetUID() || isNewSpec(before, after) ||
				!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
				(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// isNewSpec reports whether the spec may have changed. Kinds without a generation, such as ConfigMaps, have no status
// either.
func isNewSpec(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || after.GetGeneration() == 0 && before.GetResourceVersion() != after.GetResourceVersion()
}

// owned selects the creations and updates, but not the deletions, of Pods controlled by an owner of the kind.
func (c *Cache[O]) owned() predicate.Predicate {
	events := predicate.NewPredicateFuncs(func(obj client.Object) bool { return c.isOwned(obj) })
	events.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return events
}

func (c *Cache[O]) isOwned(obj client.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && isKind(ref, c.kind.GroupKind())
}

// isKind compares only group and kind of a reference, because the reference may name another API version.
func isKind(ref *metav1.OwnerReference, kind schema.GroupKind) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == kind.Group && ref.Kind == kind.Kind
}

// userGone enqueues the owners of the claims that a deleted Pod used: an owner does not delete a claim while a Pod
// uses the claim.
func (c *Cache[O]) userGone(_ context.Context, e event.DeleteEvent, q queue) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim, ok := c.Claims.Get(pod.Namespace, source.ClaimName)
		if ok && c.isOwned(claim) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: metav1.GetControllerOfNoCopy(claim).Name}})
		}
	}
}

// namesake enqueues the owner whose numbered Pods include the Pod's name, if the owner does not control the Pod: the
// owner may adopt the Pod, or may wait for the name to be free.
func (c *Cache[O]) namesake() handler.EventHandler {
	return handler.Funcs{CreateFunc: c.namesakeCreated, UpdateFunc: c.namesakeUpdated, DeleteFunc: c.namesakeDeleted}
}

func (c *Cache[O]) namesakeCreated(_ context.Context, e event.CreateEvent, q queue) {
	c.wakeNamesake(e.Object, q)
}

func (c *Cache[O]) namesakeDeleted(_ context.Context, e event.DeleteEvent, q queue) {
	c.wakeNamesake(e.Object, q)
}

func (c *Cache[O]) namesakeUpdated(_ context.Context, e event.UpdateEvent, q queue) {
	before, after := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
	if (before == nil) != (after == nil) || !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
		c.wakeNamesake(e.ObjectNew, q)
	}
}

// wakeNamesake is a method, as are its callers, because of a compiler bug: with function literals of this generic
// function, inlined by Go 1.26.8, the literal for updates was called for deletions.
func (c *Cache[O]) wakeNamesake(obj client.Object, q queue) {
	name, _, ok := ordinals.ParseName(obj.GetName())
	if ref := metav1.GetControllerOfNoCopy(obj); !ok || ref != nil && ref.Name == name && isKind(ref, c.kind.GroupKind()) {
		return // the event enqueues the Pod's controller anyway
	}
	if owner, ok := c.Owners.Get(obj.GetNamespace(), name); ok {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
	}
}

// specChanged enqueues those Pods for which look returns true after a change of their owner's spec: with the new
// spec, a different hook may hold a Pod, or a refused write may be accepted. The Pods themselves do not change, so no
// event of a Pod enqueues the Pod.
func (c *Cache[O]) specChanged(look func(*corev1.Pod) bool) handler.EventHandler {
	return handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
		if !isNewSpec(e.ObjectOld, e.ObjectNew) {
			return
		}
		for _, pod := range c.Pods.Of(e.ObjectNew.GetNamespace(), e.ObjectNew.GetUID()) {
			if look(pod) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
			}
		}
	}}
}
