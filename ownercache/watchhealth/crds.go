package watchhealth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CRDs report which kinds of CustomResourceDefinitions the API server serves; each definition is watched by name. They
// are safe for concurrent use. Make CRDs with FollowCRDs.
//
// RBAC: list and watch on customresourcedefinitions of apiextensions.k8s.io; the role may be restricted to the names.
type CRDs struct {
	watches   *Watches
	informers map[schema.GroupVersionKind]toolscache.SharedIndexInformer

	started atomic.Bool

	mu      sync.Mutex
	changed chan struct{} // closed at each change
}

// crdKind is the kind CustomResourceDefinition. Its objects are watched as unstructured objects, because their Go type
// is in a module that the kit does not import.
func crdKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// FollowCRDs returns CRDs for the given kinds and their resources. Before Start, the state of all kinds is Unknown.
// The client, and group and plural of each kind, are required: with a wrong group or plural, CRDs would never find
// the definition, and the kind would count as absent.
func FollowCRDs(c client.WithWatch, resources map[schema.GroupVersionKind]Resource) (*CRDs, error) {
	if c == nil {
		return nil, errors.New("watchhealth: FollowCRDs needs a client")
	}
	for kind, resource := range resources {
		if kind.Group == "" || kind.Version == "" || kind.Kind == "" || resource.Plural == "" || strings.ToLower(resource.Plural) != resource.Plural {
			return nil, fmt.Errorf("watchhealth: kind %v with plural %q: group, version, kind and the plural in lower case are required", kind, resource.Plural)
		}
	}
	d := &CRDs{informers: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}, changed: make(chan struct{})}
	var err error
	d.watches, err = New(Options{
		Scheme: runtime.NewScheme(), Kinds: []schema.GroupVersionKind{crdKind()},
		Observe: func(schema.GroupVersionKind, bool, error) { d.tell() },
	})
	if err != nil {
		return nil, err
	}
	told := toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { d.tell() }, UpdateFunc: func(any, any) { d.tell() }, DeleteFunc: func(any) { d.tell() }}
	for kind, resource := range resources {
		like := &unstructured.Unstructured{}
		like.SetGroupVersionKind(crdKind())
		informer := d.watches.NewInformer(named(c, resource.Plural+"."+kind.Group), like, 0, toolscache.Indexers{})
		if err := informer.SetTransform(keepVersions); err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(told); err != nil {
			return nil, err
		}
		d.informers[kind] = informer
	}
	return d, nil
}

// named lists and watches a single definition by name.
func named(c client.WithWatch, name string) toolscache.ListerWatcher {
	request := func(options metav1.ListOptions) (*unstructured.UnstructuredList, *client.ListOptions) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(crdKind().GroupVersion().WithKind(crdKind().Kind + "List"))
		return list, &client.ListOptions{Raw: &options, FieldSelector: fields.OneTermEqualSelector("metadata.name", name)}
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, one := request(options)
			return list, c.List(ctx, list, one)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			list, one := request(options)
			return c.Watch(ctx, list, one)
		},
	}
}

// keepVersions keeps only the served versions of a definition, because the schemas in definitions are large.
func keepVersions(object any) (any, error) {
	crd, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for i := range versions {
		if version, ok := versions[i].(map[string]any); ok {
			versions[i] = map[string]any{"name": version["name"], "served": version["served"]}
		}
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	kept := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"versions": versions}, "status": map[string]any{"conditions": conditions},
	}}
	kept.SetGroupVersionKind(crdKind())
	kept.SetName(crd.GetName())
	kept.SetUID(crd.GetUID())
	kept.SetResourceVersion(crd.GetResourceVersion())
	return kept, nil
}

func (d *CRDs) tell() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
}

// Start watches the definitions until ctx ends. Start CRDs before the manager: a manager waits until its caches are
// synced, and the cache of an absent kind is synced only if CRDs report that the kind is absent.
func (d *CRDs) Start(ctx context.Context) error {
	if d.started.Swap(true) {
		return errors.New("watchhealth: CRDs can be started once")
	}
	var running sync.WaitGroup
	for _, informer := range d.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

// Await returns when the state of all kinds is known, or returns an error when ctx ends.
func (d *CRDs) Await(ctx context.Context) error { return d.watches.Await(ctx, crdKind()) }

// Of implements Presence. A kind that was not given to FollowCRDs is Unknown, and so is a kind whose definition does
// not serve the version.
func (d *CRDs) Of(kind schema.GroupVersionKind) (State, <-chan struct{}) {
	d.mu.Lock()
	changed := d.changed
	d.mu.Unlock()
	informer, ours := d.informers[kind]
	if !ours || !informer.HasSynced() {
		return Unknown, changed
	}
	stored := informer.GetIndexer().List() // the informer watches a single name
	switch {
	case slices.ContainsFunc(stored, func(object any) bool {
		crd, ok := object.(*unstructured.Unstructured)
		return ok && serves(crd, kind.Version)
	}):
		return Served, changed
	case len(stored) > 0 || !d.watches.isUp(informer):
		return Unknown, changed
	}
	return Absent, changed
}

// serves reports whether a definition is established and serves a version.
func serves(crd *unstructured.Unstructured, version string) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	established := slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == "True"
	})
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return established && slices.ContainsFunc(versions, func(v any) bool {
		listed, ok := v.(map[string]any)
		return ok && listed["name"] == version && listed["served"] == true
	})
}
