package ownercache

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/nodefit"
)

// WatchNodes returns a ControllerOptions.Watch that enqueues owners on changes of Nodes, for owners that run a Pod on
// each Node. The function claim returns how an owner uses a Node: for example whether a Pod must run on the Node, and
// whether a Pod may stay. The zero value of C means that the owner does not use the Node. If the result of claim has
// changed for an owner, WatchNodes enqueues the owner, without reading any Pod. WatchNodes calls claim for each owner
// when a Node is created or deleted, and when nodefit.Changed or a function in the argument also reports a change. So
// claim must be fast: compile requirements beforehand. claim must be safe for concurrent use.
func WatchNodes[O client.Object, C comparable](
	cache *Cache[O], claim func(owner O, node *corev1.Node) C, also ...func(before, after *corev1.Node) bool,
) func(*builder.Builder) *builder.Builder {
	wake := func(q queue, before, after client.Object) {
		old, _ := before.(*corev1.Node)
		node, _ := after.(*corev1.Node)
		matters := func(changed func(before, after *corev1.Node) bool) bool { return changed(old, node) }
		if old != nil && node != nil && !nodefit.Changed(old, node) && !slices.ContainsFunc(also, matters) {
			return
		}
		for _, owner := range cache.Owners.All() {
			var was, is C
			if old != nil {
				was = claim(owner, old)
			}
			if node != nil {
				is = claim(owner, node)
			}
			if was != is {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
			}
		}
	}
	return func(b *builder.Builder) *builder.Builder {
		return b.Watches(&corev1.Node{}, onEvents(wake))
	}
}
