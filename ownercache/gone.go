package ownercache

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OnGone registers f to be called with the UID of each owner and each Pod that was deleted, for packages that keep
// records about the object. The informers call f: f must return quickly, and must not call OnGone. A nil f is ignored.
// Call OnGone before the manager starts.
func (c *Cache[O]) OnGone(f func(uid types.UID)) {
	if f == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, f)
}

// Exists reports whether the cache has an owner with the UID.
func (c *Cache[O]) Exists(uid types.UID) bool {
	_, ok := c.Owners.ByUID(uid)
	return ok
}

// OnReplaced registers f to be called with each Pod object that the cache has replaced by a newer version or deleted,
// and with the UID of its controller, for packages that keep records by pointer. Otherwise OnReplaced is like OnGone.
func (c *Cache[O]) OnReplaced(f func(owner types.UID, pod *corev1.Pod)) {
	if f == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced = append(c.replaced, f)
}

// watchGone adds the event handlers that call the functions registered by OnGone and OnReplaced.
func (c *Cache[O]) watchGone() error {
	if _, err := c.Owners.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		// These are methods because of a compiler bug: see wakeNamesake.
		UpdateFunc: c.dropReplaced, DeleteFunc: c.drop,
	}); err != nil {
		return fmt.Errorf("ownercache: watching %s: %w", c.kind.Kind, err)
	}
	if c.Pods == nil {
		return nil
	}
	if _, err := c.Pods.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: c.podUpdated, DeleteFunc: c.podDeleted,
	}); err != nil {
		return fmt.Errorf("ownercache: watching Pods: %w", err)
	}
	return nil
}

func (c *Cache[O]) podUpdated(before, after any) {
	c.replacedPod(before)
	c.dropReplaced(before, after)
}

func (c *Cache[O]) podDeleted(obj any) {
	c.replacedPod(obj)
	c.drop(obj)
}

// dropReplaced handles an update event: if another object has replaced the object of the same name, the records about
// the old object are removed.
func (c *Cache[O]) dropReplaced(before, after any) {
	was, ok := before.(client.Object)
	is, alsoOK := after.(client.Object)
	if ok && alsoOK && was.GetUID() != is.GetUID() {
		c.drop(was)
	}
}

func (c *Cache[O]) drop(obj any) {
	object, ok := lastKnown(obj).(client.Object)
	if !ok {
		return
	}
	c.clients.Forget(object)
	c.paces.forget(object.GetUID())
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, f := range c.gone {
		f(object.GetUID())
	}
}

func (c *Cache[O]) replacedPod(obj any) {
	pod, ok := lastKnown(obj).(*corev1.Pod)
	if !ok {
		return
	}
	ref := controllerOf(pod)
	if ref == nil {
		return
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, f := range c.replaced {
		f(ref.UID, pod)
	}
}

// lastKnown returns the deleted object of an event, even if the informer has missed the deletion itself.
func lastKnown(obj any) any {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return missed.Obj
	}
	return obj
}

func controllerOf(obj metav1.Object) *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(obj) }
