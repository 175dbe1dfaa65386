package ownercache

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// EnqueueController is for tests of an owner's wakes.
var EnqueueController = enqueueController

// Namesake is for tests of the wakes of an owner whose Pods have ordinals.
func Namesake[O client.Object](c *Cache[O]) handler.EventHandler { return c.namesake() }

// Forgetful is for tests of passes that outlast their owner: AddController gives the manager the same wrapper.
func Forgetful[O client.Object](c *Cache[O], r reconcile.Reconciler) reconcile.Reconciler {
	return c.forgetful(r)
}

// SetQueue is for tests of wakes: the queue of a started controller.
func SetQueue[O client.Object](c *Cache[O], q queue) { c.queue.Store(&q) }

// StatusEvents is for tests of WatchStatus.
func StatusEvents[O client.Object](changed func(before, after O) bool) handler.EventHandler {
	return statusEvents(changed)
}

// OrphanEvents is for tests of WatchOrphans.
func OrphanEvents[O client.Object](c *Cache[O], selects func(owner O, pod *corev1.Pod) bool) handler.EventHandler {
	return orphanEvents(c, selects)
}
