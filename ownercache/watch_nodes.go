package ownercache

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/nodefit"
)

// WatchNodes returns a ControllerOptions.Watch that wakes owners by what happens to Nodes, for owners of which each Node has a Pod. claim
// says what a Node is to an owner: whether a Pod is to run there and whether one may stay, for example. Its zero value means nothing. An
// owner is woken where that changes, and no Pod is looked at for it. claim is called for each owner when a Node comes, goes or changes in
// what nodefit.Changed looks at, or one of also, so it must not compile the requirements each time. It must be safe for concurrent use.
func WatchNodes[O client.Object, C comparable](
	cache *Cache[O], claim func(owner O, node *corev1.Node) C, also ...func(before, after *corev1.Node) bool,
) func(*builder.Builder) *builder.Builder {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
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
		return b.Watches(&corev1.Node{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, nil, e.Object) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wake(q, e.ObjectOld, e.ObjectNew) },
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object, nil) },
		})
	}
}
