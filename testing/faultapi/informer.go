package faultapi

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informer is a SharedIndexInformer that has only a store and event handlers.
type informer struct {
	// The embedded interface is nil: only the methods that informer itself implements may be called.
	toolscache.SharedIndexInformer

	indexer *sortedIndexer
	cache   *Cache

	mu       sync.Mutex
	handlers []*registration
}

// registration is a registered event handler. The handler has synced once it was called with the store's content at the
// time of its registration.
type registration struct {
	handler toolscache.ResourceEventHandler
	synced  chan struct{}
}

// HasSynced reports whether the handler was called with the first list.
func (r *registration) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// HasSyncedChecker returns a channel that is closed once HasSynced returns true.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return done{r.synced} }

// done implements DoneChecker.
type done struct{ c <-chan struct{} }

// Name returns the name of the awaited event.
func (done) Name() string { return "first list" }

// Done returns a channel that is closed at the awaited event.
func (d done) Done() <-chan struct{} { return d.c }

// GetIndexer returns the store.
func (i *informer) GetIndexer() toolscache.Indexer { return i.indexer }

// GetStore returns the store.
func (i *informer) GetStore() toolscache.Store { return i.indexer }

// AddIndexers adds indexes to the store.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	return i.indexer.AddIndexers(indexers)
}

// HasSynced returns true: the cache has its first list from the beginning.
func (i *informer) HasSynced() bool { return true }

// HasSyncedChecker returns a channel that is closed once HasSynced returns true.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker {
	synced := make(chan struct{})
	close(synced)
	return done{synced}
}

// IsStopped returns false: the informer exists as long as its cache.
func (i *informer) IsStopped() bool { return false }

// AddEventHandler adds a handler. The handler is called with the store's content by Cache.Announce, and with changes
// afterwards.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r := &registration{handler: handler, synced: make(chan struct{})}
	i.handlers = append(i.handlers, r)
	return r, nil
}

// AddEventHandlerWithResyncPeriod calls AddEventHandler: there is no periodic resync.
func (i *informer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, _ time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions calls AddEventHandler: the options are ignored.
func (i *informer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler removes a handler. The handler is not called any more.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, func(r *registration) bool { return toolscache.ResourceEventHandlerRegistration(r) == handle })
	return nil
}

// announce calls new handlers with the content of the store.
func (i *informer) announce() {
	i.mu.Lock()
	fresh := slices.DeleteFunc(slices.Clone(i.handlers), (*registration).HasSynced)
	i.mu.Unlock()
	for _, r := range fresh {
		for _, obj := range i.indexer.List() {
			r.handler.OnAdd(obj, true)
			i.pause()
		}
		close(r.synced)
	}
}

// tell calls the synced handlers with changes. If the changes come from a new list, the last state of deleted objects
// is unknown.
func (i *informer) tell(deltas []Delta, listed bool) {
	i.mu.Lock()
	handlers := slices.Clone(i.handlers)
	i.mu.Unlock()
	for _, d := range deltas {
		for _, r := range handlers {
			switch {
			case !r.HasSynced():
				continue
			case d.Old == nil:
				r.handler.OnAdd(d.New, false)
			case d.New != nil:
				r.handler.OnUpdate(d.Old, d.New)
			case listed:
				r.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: sortKey(d.Old), Obj: d.Old})
			default:
				r.handler.OnDelete(d.Old)
			}
			i.pause()
		}
	}
}

func (i *informer) pause() {
	if i.cache.Pause != nil {
		i.cache.Pause()
	}
}

func (i *informer) stored(obj client.Object) client.Object { return i.byKey(sortKey(obj)) }

func (i *informer) byKey(key string) client.Object {
	found, ok, err := i.indexer.GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	return found.(client.Object)
}

// sortedIndexer returns results sorted by name.
type sortedIndexer struct{ toolscache.Indexer }

// ByIndex returns the objects under a key in an index.
func (s *sortedIndexer) ByIndex(index, key string) ([]any, error) {
	found, err := s.Indexer.ByIndex(index, key)
	sortItems(found)
	return found, err
}

// List returns all objects.
func (s *sortedIndexer) List() []any {
	found := s.Indexer.List()
	sortItems(found)
	return found
}

func sortItems(items []any) {
	slices.SortFunc(items, func(a, b any) int {
		x, isX := a.(metav1.Object)
		y, isY := b.(metav1.Object)
		if !isX || !isY {
			return 0
		}
		return cmp.Or(strings.Compare(x.GetNamespace(), y.GetNamespace()), strings.Compare(x.GetName(), y.GetName()))
	})
}
