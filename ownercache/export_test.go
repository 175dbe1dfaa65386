package ownercache

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// EnqueueController exports enqueueController for tests.
var EnqueueController = enqueueController

// Namesake exports namesake for tests of owners whose Pods have ordinals.
func Namesake[O client.Object](c *Cache[O]) handler.EventHandler { return c.namesake() }

// Forgetful exports the wrapper that AddController puts around a reconciler, for tests of reconciles that end after
// the deletion of their owner.
func Forgetful[O client.Object](c *Cache[O], r reconcile.Reconciler) reconcile.Reconciler {
	return c.forgetful(r)
}

// SetQueue sets the queue of a started controller, for tests of Wake.
func SetQueue[O client.Object](c *Cache[O], q queue) { c.queue.Store(&q) }

// StatusEvents exports the event handler of WatchStatus for tests.
func StatusEvents[O client.Object](changed func(before, after O) bool) handler.EventHandler {
	return statusEvents(changed)
}

// OrphanEvents exports the event handler of WatchOrphans for tests.
func OrphanEvents[O client.Object](c *Cache[O], selects func(owner O, pod *corev1.Pod) bool) handler.EventHandler {
	return orphanEvents(c, selects)
}
