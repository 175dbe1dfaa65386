package faultapi

import (
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informer is a SharedIndexInformer reduced to its store and its event handlers.
type informer struct {
	// SharedIndexInformer is nil and stands for methods never called.
	toolscache.SharedIndexInformer

	indexer *sortedIndexer
	cache   *Cache

	mu       sync.Mutex
	handlers []*registration
}

// registration is an event handler. The handler has synced once told the store's contents from the time of its
// registration.
type registration struct {
	handler toolscache.ResourceEventHandler
	synced  chan struct{}
}

// HasSynced reports whether the handler was told of the first list.
func (r *registration) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// HasSyncedChecker tells the same without polling.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return done{r.synced} }

// done is a DoneChecker.
type done struct{ c <-chan struct{} }

// Name returns the awaited event.
func (done) Name() string { return "first list" }

// Done is closed at the awaited event.
func (d done) Done() <-chan struct{} { return d.c }

// GetIndexer returns the store.
func (i *informer) GetIndexer() toolscache.Indexer { return i.indexer }

// GetStore returns the store.
func (i *informer) GetStore() toolscache.Store { return i.indexer }

// AddIndexers adds indexes to the store.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	return i.indexer.AddIndexers(indexers)
}

// HasSynced is true: the first list is there from the beginning.
func (i *informer) HasSynced() bool { return true }

// HasSyncedChecker tells the same.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker {
	synced := make(chan struct{})
	close(synced)
	return done{synced}
}

// IsStopped is false: the informer lives as long as its cache.
func (i *informer) IsStopped() bool { return false }

// AddEventHandler adds a handler. The handler hears of the store's contents with Cache.Announce, and of changes from
// then on.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r := &registration{handler: handler, synced: make(chan struct{})}
	i.handlers = append(i.handlers, r)
	return r, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: nothing is told twice.
func (i *informer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, _ time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions is AddEventHandler: nothing is told twice.
func (i *informer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler removes a handler. The handler hears of nothing afterwards.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, func(r *registration) bool { return toolscache.ResourceEventHandlerRegistration(r) == handle })
	return nil
}

// announce tells new handlers the contents of the store.
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

// tell tells the synced handlers. After a list, the last state of deleted objects is unknown.
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

// ByIndex looks up an index.
func (s *sortedIndexer) ByIndex(index, key string) ([]any, error) {
	found, err := s.Indexer.ByIndex(index, key)
	sortItems(found)
	return found, err
}

// List returns everything.
func (s *sortedIndexer) List() []any {
	found := s.Indexer.List()
	sortItems(found)
	return found
}

func sortItems(items []any) {
	slices.SortFunc(items, func(a, b any) int { return strings.Compare(itemKey(a), itemKey(b)) })
}

func itemKey(item any) string {
	obj, ok := item.(metav1.Object)
	if !ok {
		return ""
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}
