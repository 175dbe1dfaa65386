package ownercache

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// EnqueueController is for the tests of what wakes an owner.
var EnqueueController = enqueueController

// Namesake is for the tests of what wakes an owner whose Pods have ordinals.
func Namesake[O client.Object](c *Cache[O]) handler.EventHandler { return c.namesake() }

// Forgetful is for the tests of passes that outlast their owner: it is what AddController gives the manager.
func Forgetful[O client.Object](c *Cache[O], r reconcile.Reconciler) reconcile.Reconciler {
	return c.forgetful(r)
}

// SetQueue is for the tests of what wakes owners: the queue of a controller that has started.
func SetQueue[O client.Object](c *Cache[O], q queue) { c.queue.Store(&q) }
