package ownercache

import (
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// WatchStatus returns a ControllerOptions.Watch that enqueues an owner when its status changes, for a status with
// further writers, such as webhooks that spend from a budget. Without WatchStatus, a change of the status alone
// enqueues no owner. changed reports whether the relevant part of the status differs; nil means that any change of
// the owner counts. The controller's own writes of this part also enqueue the owner. changed must be safe for
// concurrent use.
func WatchStatus[O client.Object](changed func(before, after O) bool) func(*builder.Builder) *builder.Builder {
	return func(b *builder.Builder) *builder.Builder { return b.Watches(newOwner[O](), statusEvents(changed)) }
}

func statusEvents[O client.Object](changed func(before, after O) bool) handler.EventHandler {
	return onEvents(func(q queue, before, after client.Object) {
		old, ok := before.(O)
		owner, same := after.(O)
		if ok && same && (changed == nil || changed(old, owner)) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
		}
	})
}

// Watches returns a ControllerOptions.Watch that combines several event sources; nil sources are ignored.
func Watches(all ...func(*builder.Builder) *builder.Builder) func(*builder.Builder) *builder.Builder {
	return func(b *builder.Builder) *builder.Builder {
		for _, watch := range all {
			if watch != nil {
				b = watch(b)
			}
		}
		return b
	}
}
