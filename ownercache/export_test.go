package ownercache

import (
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
