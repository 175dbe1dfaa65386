package ownercache

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These are names of the indexes in the informer, chosen so that nobody else uses the same names.
const (
	indexName    = "workloadkit/controller-uid"
	uidIndexName = "workloadkit/uid"
)

// orphanPrefix marks the index keys of objects without a controller. A UID never begins with orphanPrefix.
const orphanPrefix = "orphans/"

// Index finds objects of a type by the UID of their controller. An Index is safe for concurrent use. The methods of a
// nil Index, such as Cache.Claims if its option is not set, panic with a message that says so.
type Index[T client.Object] struct {
	informer toolscache.SharedIndexInformer
}

// NewIndex adds the index to the informer of obj's type, and creates the informer if needed. Several calls for the same
// type share the index. Call NewIndex before the informers start. NewIndex returns an error if the cache is restricted
// to a list of namespaces, even to a list with a single namespace, because such a cache has no single store with a
// comparable resourceVersion. For a single namespace, restrict the type by a field selector instead. controller-runtime
// then requests only objects of the namespace:
//
//	cache.Options{ByObject: map[client.Object]cache.ByObject{
//		&corev1.Pod{}: {Field: fields.OneTermEqualSelector("metadata.namespace", "team-a")},
//	}}
func NewIndex[T client.Object](ctx context.Context, informers cache.Informers, obj T) (*Index[T], error) {
	informer, err := informers.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("informer for %T: %w", obj, err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("informer for %T is a %T without a store of its own; watch all namespaces, or one by a field selector on metadata.namespace", obj, informer)
	}
	return IndexOf[T](shared)
}

// IndexOf is like NewIndex, for an informer made by the caller, without controller-runtime's cache.
func IndexOf[T client.Object](informer toolscache.SharedIndexInformer) (*Index[T], error) {
	if _, ok := informer.GetIndexer().GetIndexers()[indexName]; !ok {
		if err := informer.AddIndexers(toolscache.Indexers{indexName: controllerUID, uidIndexName: ownUID}); err != nil {
			return nil, fmt.Errorf("adding the owner index: %w", err)
		}
	}
	return &Index[T]{informer: informer}, nil
}

func controllerUID(obj any) ([]string, error) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("object of type %T has no metadata", obj)
	}
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		return []string{string(ref.UID)}, nil
	}
	return []string{orphanPrefix + object.GetNamespace()}, nil
}

func ownUID(obj any) ([]string, error) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("object of type %T has no metadata", obj)
	}
	return []string{string(object.GetUID())}, nil
}

// Of returns the objects whose controller has the UID, in no particular order. The caller may modify the slice, but not
// the objects, which belong to the cache. namespace is the owner's namespace. Objects of other namespaces with a
// reference to the owner are left out: Kubernetes does not support owner references across namespaces, but anybody with
// write access to a namespace can write such a reference. An empty namespace means a cluster-scoped owner, which may
// own objects of any namespace.
func (x *Index[T]) Of(namespace string, owner types.UID) []T {
	found := x.lookup(indexName, string(owner))
	if namespace == "" {
		return found
	}
	return slices.DeleteFunc(found, func(obj T) bool { return obj.GetNamespace() != namespace })
}

// Orphans returns the objects in a namespace that have no controller, for kinds that adopt orphans.
func (x *Index[T]) Orphans(namespace string) []T { return x.lookup(indexName, orphanPrefix+namespace) }

// ByUID returns the object with the UID, for callers that must know whether this object was deleted, even if another
// object has the same name now.
func (x *Index[T]) ByUID(uid types.UID) (obj T, ok bool) {
	if found := x.lookup(uidIndexName, string(uid)); len(found) > 0 {
		return found[0], true
	}
	return obj, false
}

// Add adds an index with a name and keys chosen by the caller, for By. keys returns the index keys of an object, and
// must depend only on the object. Names are unique within the informer, which several packages share: begin names with
// a prefix of your own. Add returns an error if the name is used already.
func (x *Index[T]) Add(name string, keys func(T) []string) error {
	if _, ok := x.indexer().GetIndexers()[name]; ok || name == "" {
		return fmt.Errorf("adding the index %q: the name is empty or taken", name)
	}
	err := x.informer.AddIndexers(toolscache.Indexers{name: func(obj any) ([]string, error) {
		typed, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("index %s got an object of type %T", name, obj)
		}
		return keys(typed), nil
	}})
	if err != nil {
		return fmt.Errorf("adding the index %s: %w", name, err)
	}
	return nil
}

// Ensure is like Add, for an index that several parts of a manager share: if the index exists, Ensure does nothing.
// Only a single package should use the name, always with the same keys.
func (x *Index[T]) Ensure(name string, keys func(T) []string) error {
	if _, ok := x.indexer().GetIndexers()[name]; ok {
		return nil
	}
	return x.Add(name, keys)
}

// By returns the objects with a key in an index, in no particular order. By panics if neither Add nor Ensure was called
// for the index.
func (x *Index[T]) By(index, key string) []T { return x.lookup(index, key) }

// In returns the objects of a namespace, in no particular order.
func (x *Index[T]) In(namespace string) []T {
	if found, err := x.indexer().ByIndex(toolscache.NamespaceIndex, namespace); err == nil {
		return typed[T](found)
	}
	// The informer was made by somebody else and lacks the index by namespace.
	return slices.DeleteFunc(x.All(), func(object T) bool { return object.GetNamespace() != namespace })
}

// All returns all objects of the cache, in no particular order.
func (x *Index[T]) All() []T { return typed[T](x.indexer().List()) }

// IsPresent reports whether the object with the UID is in the store and not terminating.
func (x *Index[T]) IsPresent(uid types.UID) bool {
	obj, ok := x.ByUID(uid)
	return ok && obj.GetDeletionTimestamp() == nil
}

// indexer returns the store of the informer. A nil Index has no store.
func (x *Index[T]) indexer() toolscache.Indexer {
	if x == nil {
		panic(fmt.Sprintf("ownercache: no index of %T; is an option of the Cache missing, such as Claims or Nodes?", *new(T)))
	}
	return x.informer.GetIndexer()
}

func (x *Index[T]) lookup(index, key string) []T {
	found, err := x.indexer().ByIndex(index, key)
	if err != nil {
		// The only possible error is a missing index, and NewIndex has added the index.
		panic(err)
	}
	return typed[T](found)
}

func typed[T client.Object](objects []any) []T {
	out := make([]T, 0, len(objects))
	for _, obj := range objects {
		if object, ok := obj.(T); ok {
			out = append(out, object)
		}
	}
	return out
}

// Get returns an object of the cache by namespace and name.
func (x *Index[T]) Get(namespace, name string) (obj T, ok bool) {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	found, exists, err := x.indexer().GetByKey(key)
	if err != nil || !exists {
		return obj, false
	}
	obj, ok = found.(T)
	return obj, ok
}

// LastStoreSyncResourceVersion returns the resourceVersion up to which the store has applied all events. The version is
// empty before the first sync, and always if client-go's feature AtomicFIFO is off.
func (x *Index[T]) LastStoreSyncResourceVersion() string {
	return x.indexer().LastStoreSyncResourceVersion()
}

// Versions returns the resourceVersion of each matching object, by UID, for a comparison with a live list. If match is
// nil, all objects match.
func (x *Index[T]) Versions(match func(metav1.Object) bool) map[types.UID]string {
	all := x.indexer().List()
	versions := make(map[types.UID]string, len(all))
	for _, obj := range all {
		if typed, ok := obj.(T); ok && (match == nil || match(typed)) {
			versions[typed.GetUID()] = typed.GetResourceVersion()
		}
	}
	return versions
}

// HasSynced reports whether the store has received its first list.
func (x *Index[T]) HasSynced() bool { return x.informer.HasSynced() }
