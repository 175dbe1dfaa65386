package ownercache

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// memberIndex is the name of the index of Pods by the owners that Options.Members returns.
func (c *Cache[O]) memberIndex() string { return "workloadkit/members/" + c.kind.GroupKind().String() }

// memberOf returns two index keys for each owner that a Pod belongs to: the owner's name, and the owner's name with
// the Pod's namespace.
func (c *Cache[O]) memberOf(pod *corev1.Pod) (keys []string) {
	for _, name := range c.options.Members(pod) {
		keys = append(keys, name, pod.Namespace+"/"+name)
	}
	return keys
}

// podsOf returns the Pods of an owner: the controlled Pods, or the members if Options.Members is set.
func (c *Cache[O]) podsOf(owner O) []*corev1.Pod {
	namespace, name := owner.GetNamespace(), owner.GetName()
	switch {
	case c.options.Members == nil:
		return c.Pods.Of(namespace, owner.GetUID())
	case namespace == "":
		return c.Pods.By(c.memberIndex(), name)
	}
	return c.Pods.By(c.memberIndex(), namespace+"/"+name)
}

// podEvents enqueues the owners to which a Pod belongs.
func (c *Cache[O]) podEvents() handler.EventHandler {
	if c.options.Members == nil {
		return enqueueController(c.kind.GroupKind())
	}
	return onEvents(func(q queue, before, after client.Object) {
		var names []string
		namespace := ""
		for _, obj := range []client.Object{before, after} {
			if pod, ok := obj.(*corev1.Pod); ok {
				names, namespace = append(names, c.options.Members(pod)...), pod.Namespace
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			for _, namespace := range []string{"", namespace} {
				if _, ok := c.Owners.Get(namespace, name); ok {
					q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
				}
			}
		}
	})
}

// onEvents returns a handler that calls wake for each event; before is nil for a created object, after is nil for a
// deleted object. onEvents is a separate function, and not generic, because of the compiler bug described at
// wakeNamesake.
func onEvents(wake func(q queue, before, after client.Object)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, nil, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object, nil) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wake(q, e.ObjectOld, e.ObjectNew) },
	}
}
