package watchhealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

const (
	// blink is how long opening a watch again may take before objects are listed: changes of that time arrive at some later moment, and
	// nobody could say when the cache is current again.
	blink = 100 * time.Millisecond
	// lasts is how long a watch is up that is no sign of trouble.
	lasts = time.Second
	// firstRest and longestRest bound how long an attempt waits after one that failed.
	firstRest, longestRest = 50 * time.Millisecond, 30 * time.Second
)

// errClosed is why a watch has ended that was closed soon after it was opened.
var errClosed = errors.New("the API server closes the watch again and again")

// lastingWatch is a watch that is opened again when it was closed. A reflector that sees a watch end by an error waits before the next
// attempt, each time for longer. Changes that the watch has missed are found by a list, and sent as events.
type lastingWatch struct {
	*kindWatch

	options metav1.ListOptions
	events  chan watch.Event
	stop    context.CancelFunc

	version string    // of the last event that was sent
	again   bool      // something may have been missed
	trouble time.Time // when the last watch ended that was up for long
}

// ResultChan implements watch.Interface.
func (w *lastingWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *lastingWatch) Stop() { w.stop() }

// follow runs until ctx ends.
func (w *lastingWatch) follow(ctx context.Context) {
	defer close(w.events)
	w.trouble = w.config.Clock.Now()
	for ctx.Err() == nil {
		if err := w.attempt(ctx); err != nil && ctx.Err() == nil {
			w.down(err)
			w.rest(ctx, w.config.Clock.Since(w.trouble)/10)
		}
	}
}

// rest waits for a part of how long there has been trouble, so that what ends soon is seen at once. A kind that comes or goes ends the rest.
func (w *lastingWatch) rest(ctx context.Context, d time.Duration) {
	_, changed := w.presence()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-w.config.Clock.After(wait.Jitter(min(max(d, firstRest), longestRest), 0.2)):
	}
}

// attempt lists if need be, watches, and returns when the watch has ended. An error asks for a rest.
func (w *lastingWatch) attempt(ctx context.Context) error {
	if state, changed := w.presence(); state == Absent {
		w.again = true
		return w.absent(ctx, changed)
	}
	if w.again {
		w.down(nil)
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	return w.watch(ctx)
}

// absent has the store become empty, and returns when the kind may be there again.
func (w *lastingWatch) absent(ctx context.Context, changed <-chan struct{}) error {
	if err := w.drained(ctx); err != nil {
		return err
	}
	for _, event := range w.differences(nil, w.version) {
		if err := w.send(ctx, event); err != nil {
			return err
		}
	}
	w.empty()
	select {
	case <-ctx.Done():
	case <-changed:
	}
	return nil
}

// watch opens the watch, and returns when it has ended.
func (w *lastingWatch) watch(ctx context.Context) error {
	asked := w.config.Clock.Now()
	options := w.options
	options.ResourceVersion = w.version
	opened, err := w.from.WatchWithContext(ctx, options)
	if err != nil {
		listed := w.again
		w.again = true
		if apierrors.IsResourceExpired(err) && !listed {
			return nil // no sign of trouble: the API server has forgotten the past
		}
		return err
	}
	defer opened.Stop()
	if late := w.config.Clock.Since(asked) > blink; late && !w.again {
		w.again = true
		return nil
	}
	w.again = false
	w.up(w.version)
	since := w.config.Clock.Now()
	err = w.forward(ctx, opened)
	w.again = err != nil
	w.down(nil)
	if w.config.Clock.Since(since) < lasts {
		w.again = true // what comes during the rest is missed
		return cmp.Or(err, errClosed)
	}
	if w.trouble = w.config.Clock.Now(); apierrors.IsResourceExpired(err) {
		return nil // no sign of trouble
	}
	return err
}

// forward sends events on until the watch is closed, which is no error.
func (w *lastingWatch) forward(ctx context.Context, opened watch.Interface) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-opened.ResultChan():
			switch {
			case !open:
				return nil
			case event.Type == watch.Error:
				return apierrors.FromObject(event.Object)
			}
			if err := w.send(ctx, event); err != nil {
				return err
			}
		}
	}
}

// send gives an event to the informer.
func (w *lastingWatch) send(ctx context.Context, event watch.Event) error {
	if version := versionOf(event.Object); version != "" {
		w.version = version
	}
	select {
	case w.events <- event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// list finds what has changed since the last event, and sends it.
func (w *lastingWatch) list(ctx context.Context) error {
	list, err := w.from.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	version, err := meta.NewAccessor().ResourceVersion(list)
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	listed, err := byKey(list)
	if err != nil {
		return err
	}
	if err := w.drained(ctx); err != nil {
		return err
	}
	for _, event := range w.differences(listed, version) {
		if err := w.send(ctx, event); err != nil {
			return err
		}
	}
	bookmark := w.blank()
	if err := meta.NewAccessor().SetResourceVersion(bookmark, version); err != nil {
		return err
	}
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: bookmark})
}

// drained waits until the store has applied all that was sent, so that it can be compared.
func (w *lastingWatch) drained(ctx context.Context) error {
	for !w.informer.HasSynced() || !w.reached(w.version) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.config.Clock.After(storePoll):
		}
	}
	return nil
}

// byKey returns the objects of a list by their keys in a store.
func byKey(list runtime.Object) (map[string]runtime.Object, error) {
	objects := map[string]runtime.Object{}
	err := meta.EachListItemWithAlloc(list, func(object runtime.Object) error {
		key, err := toolscache.MetaNamespaceKeyFunc(object)
		objects[key] = object
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	return objects, nil
}

// differences are the events by which the store becomes what was listed, in the order of their versions: a store must not seem to go back.
// Objects that are gone are so at the version of the list.
func (w *lastingWatch) differences(listed map[string]runtime.Object, version string) (events []watch.Event) {
	store := w.informer.GetIndexer()
	for key, object := range listed {
		stored, there, _ := store.GetByKey(key)
		switch {
		case !there:
			events = append(events, watch.Event{Type: watch.Added, Object: object})
		case versionOf(stored) != versionOf(object):
			events = append(events, watch.Event{Type: watch.Modified, Object: object})
		}
	}
	slices.SortFunc(events, func(a, b watch.Event) int {
		order, _ := resourceversion.CompareResourceVersion(versionOf(a.Object), versionOf(b.Object))
		return order
	})
	for _, key := range store.ListKeys() {
		stored, _, _ := store.GetByKey(key)
		object, ok := stored.(runtime.Object)
		if _, there := listed[key]; there || !ok {
			continue
		}
		object = object.DeepCopyObject() // others read the stored one
		if err := meta.NewAccessor().SetResourceVersion(object, version); err == nil {
			events = append(events, watch.Event{Type: watch.Deleted, Object: object})
		}
	}
	return events
}

// versionOf returns the resourceVersion of an object; empty for none.
func versionOf(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}
