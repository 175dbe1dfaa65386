package faultapi

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache is a controller's cache of a Server's objects: it has a client-go store for each resource. A store receives an
// event only when Deliver is called. Each resource progresses independently of other resources, as with informers.
//
// A controller-runtime manager can use the Cache: controllers read, index and watch it. Announce, Deliver and Relist
// call event handlers before returning. Stores return results sorted by name, so a decision does not depend on the
// order of a map. Make a Cache with Server.Cache.
type Cache struct {
	// The embedded interface is nil: only the methods that Cache itself implements may be called.
	cache.Informers
	// Pause, if set, is called after each call of an event handler. A work queue merges two events of an object, unless
	// a worker takes the first before the second. If Pause calls synctest.Wait, a worker always takes the first event
	// before the second.
	Pause func()

	server *Server
	feeds  []*feed
}

// feed is the store of a resource in a cache, with the position in the resource's log of events.
type feed struct {
	kind     *kind
	informer *informer
	next     int // index into kind.log of the first event not delivered yet
}

// Delta is a change of a cache, as passed to event handlers.
type Delta struct {
	Type watch.EventType
	// Old is nil for an added object, New for a deleted object.
	Old, New client.Object
}

// Cache returns a cache of every resource, filled by a first list. lag returns the number of a resource's newest
// events that the first list does not include, because a list from an API server's watch cache can be stale. If lag
// is nil, the first list is up to date.
func (s *Server) Cache(lag func(resource string, events int) int) *Cache {
	c := &Cache{server: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.order {
		f := &feed{kind: k, informer: &informer{cache: c, indexer: &sortedIndexer{toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})}}}
		c.feeds = append(c.feeds, f)
		f.next = len(k.log)
		if lag != nil {
			f.next -= min(max(lag(c.name(k), f.next), 0), f.next)
		}
		f.replace()
	}
	return c
}

// replace fills the store with the state after the first f.next events of the resource, as a list does.
func (f *feed) replace() {
	state := map[string]any{}
	version := int64(firstVersion)
	for _, e := range f.kind.log[:f.next] {
		version = e.Version
		if e.Type == watch.Deleted {
			delete(state, sortKey(e.Object))
		} else {
			state[sortKey(e.Object)] = e.Object
		}
	}
	items := make([]any, 0, len(state))
	for _, obj := range state {
		items = append(items, clone(obj.(client.Object)))
	}
	if err := f.informer.indexer.Replace(items, strconv.FormatInt(version, 10)); err != nil {
		panic(err) // only objects with metadata are stored
	}
}

// name returns the plural, with the group if an earlier resource has the same plural: for example for StatefulSets of
// two groups.
func (c *Cache) name(k *kind) string {
	for _, f := range c.feeds {
		if f.kind == k {
			break
		}
		if f.kind.resource.Resource == k.resource.Resource {
			return k.resource.String()
		}
	}
	return k.resource.Resource
}

// Resources returns the names of the resources, in a fixed order. If several resources have the same plural, the names
// of all but the first include the group.
func (c *Cache) Resources() []string {
	names := make([]string, len(c.feeds))
	for i, f := range c.feeds {
		names[i] = c.name(f.kind)
	}
	return names
}

func (c *Cache) feed(resource string) *feed {
	for _, f := range c.feeds {
		if c.name(f.kind) == resource {
			return f
		}
	}
	panic("no resource " + resource)
}

// Behind returns how many events of a resource are not delivered yet.
func (c *Cache) Behind(resource string) int {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	f := c.feed(resource)
	return len(f.kind.log) - f.next
}

// Deliver applies the next n events of a resource, or all events if there are fewer, calls the event handlers and
// returns the changes.
func (c *Cache) Deliver(resource string, n int) []Delta {
	f := c.feed(resource)
	deltas := c.deliver(f, n)
	f.informer.tell(deltas, false)
	return deltas
}

func (c *Cache) deliver(f *feed, n int) []Delta {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	var deltas []Delta
	for ; n > 0 && f.next < len(f.kind.log); n-- {
		deltas = append(deltas, f.show(f.kind.log[f.next]))
		f.next++
	}
	return deltas
}

// show applies an event to the store. The cache gets its own copy of the object, so that Altered can detect
// modifications.
func (f *feed) show(e Event) Delta {
	obj := clone(e.Object)
	d := Delta{Type: e.Type, Old: f.informer.stored(obj), New: obj}
	var err error
	switch {
	case e.Type == watch.Deleted:
		d.Old, d.New = obj, nil
		err = f.informer.indexer.Delete(obj)
	case d.Old == nil:
		d.Type = watch.Added
		err = f.informer.indexer.Add(obj)
	default:
		d.Type = watch.Modified
		err = f.informer.indexer.Update(obj)
	}
	if err != nil {
		panic(err) // only objects with metadata are stored
	}
	return d
}

// Relist replaces the content of a store by the newest state, as after a broken watch. Objects that were created and
// deleted in between never appear, and an object that was replaced by another object with the same name looks
// updated.
func (c *Cache) Relist(resource string) []Delta {
	f := c.feed(resource)
	deltas := c.relist(f)
	f.informer.tell(deltas, true)
	return deltas
}

func (c *Cache) relist(f *feed) []Delta {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	before := map[string]client.Object{}
	for _, obj := range f.informer.indexer.List() {
		before[sortKey(obj.(client.Object))] = obj.(client.Object)
	}
	f.next = len(f.kind.log)
	f.replace()
	f.informer.indexer.Bookmark(strconv.FormatInt(c.server.version, 10))
	var deltas []Delta
	for _, found := range f.informer.indexer.List() {
		obj := found.(client.Object)
		old := before[sortKey(obj)]
		delete(before, sortKey(obj))
		if old == nil {
			deltas = append(deltas, Delta{Type: watch.Added, New: obj})
		} else if old.GetResourceVersion() != obj.GetResourceVersion() {
			deltas = append(deltas, Delta{Type: watch.Modified, Old: old, New: obj})
		}
	}
	for _, old := range before {
		deltas = append(deltas, Delta{Type: watch.Deleted, Old: old})
	}
	slices.SortFunc(deltas, func(a, b Delta) int { return strings.Compare(a.key(), b.key()) })
	return deltas
}

func (d Delta) key() string {
	if d.New != nil {
		return sortKey(d.New)
	}
	return sortKey(d.Old)
}

// Bookmark gives a store that is up to date the server's present resourceVersion. The API server sends bookmarks about
// once a minute.
func (c *Cache) Bookmark(resource string) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	f := c.feed(resource)
	if f.next < len(f.kind.log) {
		return false
	}
	f.informer.indexer.Bookmark(strconv.FormatInt(c.server.version, 10))
	return true
}

// Altered returns the name of a cached object that code under test has modified, or "". The objects of a cache are
// shared, so modifications are mistakes.
func (c *Cache) Altered() string {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, f := range c.feeds {
		shown := map[string]client.Object{}
		for _, e := range f.kind.log[:f.next] {
			shown[sortKey(e.Object)] = e.Object
		}
		for _, found := range f.informer.indexer.List() {
			obj := found.(client.Object)
			if !sameObject(shown[sortKey(obj)], obj) {
				return c.name(f.kind) + " " + sortKey(obj)
			}
		}
	}
	return ""
}

// Get reads an object from the cache. If the kind is not cached, the error is NotFound.
func (c *Cache) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	stored := c.feed(c.name(k)).informer.byKey(storeKey(key))
	if stored == nil {
		return apierrors.NewNotFound(k.resource, key.Name)
	}
	return answer(k.gvk, stored, obj)
}

// List reads objects from the cache, sorted by name. A limit shortens the list.
func (c *Cache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	k, err := c.server.kindOf(list)
	if err != nil {
		return err
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	if o.FieldSelector != nil && !o.FieldSelector.Empty() {
		return unsupported("field selectors")
	}
	f := c.feed(c.name(k))
	var found []client.Object
	for _, item := range f.informer.indexer.List() {
		obj := item.(client.Object)
		if (o.Namespace == "" || o.Namespace == obj.GetNamespace()) && (o.LabelSelector == nil || o.LabelSelector.Matches(labelsOf(obj))) {
			found = append(found, obj)
		}
	}
	return answerList(k.gvk, limited(found, o.Limit), f.informer.indexer.LastStoreSyncResourceVersion(), list)
}

// GetInformer returns an informer that uses the store of obj's kind and has no goroutine.
func (c *Cache) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return nil, err
	}
	return c.feed(c.name(k)).informer, nil
}

// WaitForCacheSync returns true: the cache has its first list from the beginning.
func (c *Cache) WaitForCacheSync(context.Context) bool { return true }

// Announce calls handlers added since the last call with the content of the stores, as after the first list. From then
// on their registrations have synced.
func (c *Cache) Announce() {
	for _, f := range c.feeds {
		f.informer.announce()
	}
}

// Resync calls the event handlers once more with the whole content of the stores, as updates.
func (c *Cache) Resync() {
	for _, f := range c.feeds {
		for _, item := range f.informer.indexer.List() {
			obj := item.(client.Object)
			f.informer.tell([]Delta{{Type: watch.Modified, Old: obj, New: obj}}, false)
		}
	}
}

// IndexField is not supported, because reads by field selectors are not supported.
func (c *Cache) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return unsupported("indexes of fields")
}
