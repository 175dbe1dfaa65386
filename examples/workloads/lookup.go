package workloads

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/ownercache"
)

// Numbered finds workloads of all kinds whose Pods have ordinals. Make a Numbered with NewNumbered.
type Numbered struct {
	builtIn   *ownercache.Index[*appsv1.StatefulSet]
	advanced  *ownercache.Index[*v1beta1.StatefulSet]
	serves    func(schema.GroupVersionKind) bool // reports whether the API server serves the kind of advanced
	more      Objects
	live      client.Reader
	fromStart bool
}

// NewNumbered returns a Numbered. StatefulSets are found in the manager's cache, and workloads of any other kind in
// more. serves reports whether the API server serves a kind now. If fromStart is true, the ordinals of StatefulSets of
// this group begin at spec.ordinals.start, otherwise at 0.
func NewNumbered(ctx context.Context, mgr ctrl.Manager, more Objects, serves func(schema.GroupVersionKind) bool, fromStart bool) (*Numbered, error) {
	w := &Numbered{more: more, live: mgr.GetAPIReader(), serves: serves, fromStart: fromStart}
	var err error
	if w.builtIn, err = ownercache.NewIndex(ctx, mgr.GetCache(), &appsv1.StatefulSet{}); err != nil {
		return nil, err
	}
	w.advanced, err = ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.StatefulSet{})
	return w, err
}

// Sources returns the caches of StatefulSets as sources for package trackedclient.
func (w *Numbered) Sources() []trackedclient.Source {
	return []trackedclient.Source{sourceOf(appsv1.SchemeGroupVersion, w.builtIn), sourceOf(v1beta1.GroupVersion, w.advanced)}
}

func sourceOf(version schema.GroupVersion, index trackedclient.Index) trackedclient.Source {
	return trackedclient.Source{
		Store: expectations.Store{GroupResource: schema.GroupResource{Group: version.Group, Resource: "statefulsets"}}, Kind: version.WithKind("StatefulSet"), Index: index,
	}
}

// Get returns the workload from the cache, or nil. If known is false, the cache cannot tell whether the workload
// exists.
func (w *Numbered) Get(kind schema.GroupKind, namespace, name string) (found *Workload, known bool) {
	switch {
	case kind == api.BuiltIn():
		if set, ok := w.builtIn.Get(namespace, name); ok {
			return fromBuiltIn(set), true
		}
		return nil, w.builtIn.HasSynced()
	case kind == api.Advanced():
		if set, ok := w.advanced.Get(namespace, name); ok {
			return fromAdvanced(set, w.fromStart), true
		}
		return nil, w.advanced.HasSynced() && w.serves(v1beta1.GroupVersion.WithKind(kind.Kind))
	}
	object, known := w.more.Get(kind, namespace, name)
	if object == nil {
		return nil, known
	}
	return fromAny(object), true
}

// Named returns the workloads of this name, of all kinds, in a fixed order.
func (w *Numbered) Named(namespace, name string) (found []*Workload) {
	kinds := []schema.GroupKind{api.BuiltIn(), api.Advanced()}
	for _, kind := range w.more.Served() {
		kinds = append(kinds, kind.GroupKind())
	}
	for _, kind := range kinds {
		if workload, _ := w.Get(kind, namespace, name); workload != nil {
			found = append(found, workload)
		}
	}
	return found
}

// Read returns the workload as stored in the API server, or nil. Call Read before an action that cannot be undone.
func (w *Numbered) Read(ctx context.Context, kind schema.GroupKind, namespace, name string) (*Workload, error) {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	switch kind {
	case api.BuiltIn():
		set := &appsv1.StatefulSet{}
		return found(w.live.Get(ctx, key, set), kind, key, func() *Workload { return fromBuiltIn(set) })
	case api.Advanced():
		set := &v1beta1.StatefulSet{}
		return found(w.live.Get(ctx, key, set), kind, key, func() *Workload { return fromAdvanced(set, w.fromStart) })
	}
	for _, served := range w.more.Served() {
		if served.GroupKind() == kind {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(served)
			return found(w.live.Get(ctx, key, object), kind, key, func() *Workload { return fromAny(object) })
		}
	}
	return nil, fmt.Errorf("%s %s: its kind is not known any more", kind, key)
}

// found converts the error of a Get from the API server: if the object is missing, the result is nil without an error.
func found(err error, kind schema.GroupKind, key client.ObjectKey, read func() *Workload) (*Workload, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, key, err)
	}
	return read(), nil
}
