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
	// blink is the longest gap after which a watch is opened again without listing the objects. After a longer gap, a
	// watch would send the missed events without saying which event is the last, so nobody could tell when the cache
	// is up to date again.
	blink = 100 * time.Millisecond
	// lasts is how long a watch must last to count as healthy.
	lasts = time.Second
	// firstRest and longestRest bound the wait after a failed attempt to watch.
	firstRest, longestRest = 50 * time.Millisecond, 30 * time.Second
)

// errClosed is the error if a watch was closed soon after it was opened.
var errClosed = errors.New("the API server closes the watch again and again")

// lastingWatch is a watch that opens the underlying watch again when the API server closes it. A plain watch would end
// with an error, and the reflector would wait longer and longer before its next attempt. If events may have been
// missed, lastingWatch lists the objects and sends the differences as events.
type lastingWatch struct {
	*kindWatch

	options metav1.ListOptions
	events  chan watch.Event
	stop    context.CancelFunc

	version string    // resourceVersion of the last event sent
	again   bool      // events may have been missed
	trouble time.Time // when the last healthy watch ended
}

// ResultChan implements watch.Interface.
func (w *lastingWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *lastingWatch) Stop() { w.stop() }

// follow keeps the watch open until ctx ends.
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

// rest waits for d before the next attempt, but not less than firstRest and not more than longestRest. The caller
// passes a fraction of the time since the failures began, so that the watch is open again soon after a short outage.
// If the presence of the kind changes, rest returns early.
func (w *lastingWatch) rest(ctx context.Context, d time.Duration) {
	_, changed := w.presence()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-w.config.Clock.After(wait.Jitter(min(max(d, firstRest), longestRest), 0.2)):
	}
}

// attempt lists the objects if needed, watches, and returns when the watch has ended. An error means that the caller
// must wait before the next attempt.
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

// absent empties the store, and returns when the kind may exist again.
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

// watch opens the underlying watch, and returns when this watch has ended.
func (w *lastingWatch) watch(ctx context.Context) error {
	asked := w.config.Clock.Now()
	options := w.options
	options.ResourceVersion = w.version
	opened, err := w.from.WatchWithContext(ctx, options)
	if err != nil {
		listed := w.again
		w.again = true
		if apierrors.IsResourceExpired(err) && !listed {
			return nil // not a failure: the API server no longer has the resourceVersion's history
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
		w.again = true // events during the wait are missed
		return cmp.Or(err, errClosed)
	}
	if w.trouble = w.config.Clock.Now(); apierrors.IsResourceExpired(err) {
		return nil // not a failure
	}
	return err
}

// forward sends events to the informer until the watch is closed; a closed watch is no error.
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

// send sends an event to the informer.
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

// list lists the objects, and sends the changes since the last event.
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

// drained waits until the store has applied all sent events, so that the store can be compared with a list.
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

// byKey returns the objects of a list by their store keys.
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

// differences returns the events that turn the store's content into the list, in the order of their resourceVersions:
// the store's resourceVersion must never decrease. Objects missing in the list get deletion events with the
// resourceVersion of the list.
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
		object = object.DeepCopyObject() // other goroutines read the stored object
		if err := meta.NewAccessor().SetResourceVersion(object, version); err == nil {
			events = append(events, watch.Event{Type: watch.Deleted, Object: object})
		}
	}
	return events
}

// versionOf returns the resourceVersion of an object, or "".
func versionOf(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}
