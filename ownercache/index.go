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

// Names of the indexes in the informer, unlikely to be anybody else's.
const (
	indexName    = "workloadkit/controller-uid"
	uidIndexName = "workloadkit/uid"
)

// orphanPrefix marks the index keys of objects without a controller. A UID never begins like this.
const orphanPrefix = "orphans/"

// Index looks up objects of one type by the UID of their controller. It is safe for concurrent use.
type Index[T client.Object] struct {
	informer toolscache.SharedIndexInformer
}

// NewIndex adds the index to the informer of obj's type, creating the informer if need be. Several calls for one type share the
// index. It must be called before the informers start. It returns an error when the cache is restricted by a list of
// namespaces, even of one, because such a cache has no single store whose progress could be compared with a write. For one
// namespace restrict the type by a field selector instead, which controller-runtime turns into requests for that namespace:
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

// IndexOf is NewIndex for an informer that the caller made, without controller-runtime's cache.
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

// Of returns the objects whose controller has the UID, in no particular order. The slice is the caller's, the objects are
// the cache's. namespace is the owner's: objects of another namespace that claim to be its own are not, because Kubernetes
// has no owner references across namespaces, though whoever may write there can write one. Empty stands for an owner without a namespace, which owns objects of any.
func (x *Index[T]) Of(namespace string, owner types.UID) []T {
	found := x.lookup(indexName, string(owner))
	if namespace == "" {
		return found
	}
	return slices.DeleteFunc(found, func(obj T) bool { return obj.GetNamespace() != namespace })
}

// Orphans returns the objects of a namespace that have no controller, for kinds that adopt.
func (x *Index[T]) Orphans(namespace string) []T { return x.lookup(indexName, orphanPrefix+namespace) }

// ByUID returns the object with the UID, for questions about a deletion that a successor of the same name must not answer.
func (x *Index[T]) ByUID(uid types.UID) (obj T, ok bool) {
	if found := x.lookup(uidIndexName, string(uid)); len(found) > 0 {
		return found[0], true
	}
	return obj, false
}

// Add adds an index of the caller's, for By. keys returns the keys under which an object is found, and must depend on the
// object alone. Names belong to the informer, which others share: begin them with something of your own. A name that is taken
// is an error.
func (x *Index[T]) Add(name string, keys func(T) []string) error {
	if _, ok := x.informer.GetIndexer().GetIndexers()[name]; ok || name == "" {
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

// Ensure is Add for an index that several parts of one manager share: one that is there already stays as it is. Only one package should
// use the name, always with the same keys.
func (x *Index[T]) Ensure(name string, keys func(T) []string) error {
	if _, ok := x.informer.GetIndexer().GetIndexers()[name]; ok {
		return nil
	}
	return x.Add(name, keys)
}

// By returns the objects that an index has under a key, in no particular order. It panics if neither Add nor Ensure was called for the index.
func (x *Index[T]) By(index, key string) []T { return x.lookup(index, key) }

// In returns the objects of a namespace, in no particular order.
func (x *Index[T]) In(namespace string) []T {
	if found, err := x.informer.GetIndexer().ByIndex(toolscache.NamespaceIndex, namespace); err == nil {
		return typed[T](found)
	}
	return slices.DeleteFunc(x.All(), func(object T) bool { return object.GetNamespace() != namespace }) // an informer that somebody else made
}

// All returns all objects of the cache, in no particular order.
func (x *Index[T]) All() []T { return typed[T](x.informer.GetIndexer().List()) }

// IsPresent reports whether the object with the UID is in the store and not terminating.
func (x *Index[T]) IsPresent(uid types.UID) bool {
	obj, ok := x.ByUID(uid)
	return ok && obj.GetDeletionTimestamp() == nil
}

func (x *Index[T]) lookup(index, key string) []T {
	found, err := x.informer.GetIndexer().ByIndex(index, key)
	if err != nil {
		// Only an index that does not exist is an error, and NewIndex added it.
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

// Get returns one object of the cache.
func (x *Index[T]) Get(namespace, name string) (obj T, ok bool) {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	found, exists, err := x.informer.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return obj, false
	}
	obj, ok = found.(T)
	return obj, ok
}

// LastStoreSyncResourceVersion returns the resource version that the store has reached, events applied. It is empty before
// the first sync, and always when client-go's feature AtomicFIFO was switched off.
func (x *Index[T]) LastStoreSyncResourceVersion() string {
	return x.informer.GetIndexer().LastStoreSyncResourceVersion()
}

// Versions returns the resourceVersion of each object that matches, by UID; nil matches all. It is what a live list can be
// compared with.
func (x *Index[T]) Versions(match func(metav1.Object) bool) map[types.UID]string {
	all := x.informer.GetIndexer().List()
	versions := make(map[types.UID]string, len(all))
	for _, obj := range all {
		if typed, ok := obj.(T); ok && (match == nil || match(typed)) {
			versions[typed.GetUID()] = typed.GetResourceVersion()
		}
	}
	return versions
}

// HasSynced reports whether the store holds the first list.
func (x *Index[T]) HasSynced() bool { return x.informer.HasSynced() }
