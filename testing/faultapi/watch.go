package faultapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watch is a watch opened by a Client. Events are delivered only when Deliver is called. A Watch is safe for concurrent
// use.
type Watch struct {
	client  *Client
	kind    *kind
	matches func(client.Object) bool
	item    reflect.Type // type of the events' objects
	events  chan watch.Event

	mu   sync.Mutex
	next int // index in kind.log of the first undelivered event
	over bool
}

// watchBuffer is the number of unread events that a watch can hold. A watch with more unread events ends, as on the
// API server.
const watchBuffer = 1000

// Watch opens a watch from the resourceVersion in client.ListOptions.Raw, which is required. The watch reads from the
// server, even if the client reads from a cache.
func (c *Client) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	k, err := c.server.kindOf(list)
	if err != nil {
		return nil, err
	}
	o := client.ListOptions{}
	matches, err := matcher(o.ApplyOptions(opts))
	if err != nil {
		return nil, err
	}
	if o.Raw == nil || o.Raw.ResourceVersion == "" {
		return nil, unsupported("a watch without resourceVersion")
	}
	version, err := strconv.ParseInt(o.Raw.ResourceVersion, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	if !items.IsValid() {
		return nil, fmt.Errorf("a %T has no items", list)
	}
	w := &Watch{client: c, kind: k, matches: matches, item: items.Type().Elem(), events: make(chan watch.Event, watchBuffer)}
	err = c.call(ctx, Call{Verb: "watch", Namespace: o.Namespace, Name: nameOf(&o)}, k, func(*Server) error {
		w.next = slices.IndexFunc(k.log, func(e Event) bool { return e.Version > version })
		if w.next < 0 {
			w.next = len(k.log)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches = append(c.watches, w)
	return w, nil
}

// Watches returns the open watches, in the order of opening.
func (c *Client) Watches() []*Watch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.watches)
}

// String names the watched resource.
func (w *Watch) String() string { return "watch of " + w.kind.resource.String() }

// ResultChan returns the channel of the events. The channel is closed when the watch ends.
func (w *Watch) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch.
func (w *Watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
}

// end closes the channel once. The caller holds mu.
func (w *Watch) end() {
	if w.over {
		return
	}
	w.over = true
	close(w.events)
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	w.client.watches = slices.DeleteFunc(w.client.watches, func(other *Watch) bool { return other == w })
}

// Behind returns how many events are not delivered.
func (w *Watch) Behind() (n int) {
	w.client.server.mu.Lock()
	defer w.client.server.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.kind.log[w.next:] {
		if w.matches(e.Object) {
			n++
		}
	}
	return n
}

// Deliver sends the next n events, or all events if there are fewer. If the reader is too slow (watchBuffer), the
// watch ends.
func (w *Watch) Deliver(n int) {
	w.client.server.mu.Lock()
	defer w.client.server.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; n > 0 && w.next < len(w.kind.log) && !w.over; w.next++ {
		e := w.kind.log[w.next]
		if !w.matches(e.Object) {
			continue
		}
		n--
		obj := reflect.New(w.item).Interface().(client.Object)
		if err := answer(w.kind.gvk, e.Object, obj); err != nil {
			panic(err) // the first list has checked already that the events' objects have the type of the list's items
		}
		select {
		case w.events <- watch.Event{Type: e.Type, Object: obj}:
		default:
			w.end()
		}
	}
}

// Break ends the watch from the server's side: by an error event about an expired version, or without an event.
func (w *Watch) Break(expired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if expired && !w.over {
		status := apierrors.NewResourceExpired("too old resource version").Status()
		status.Code = http.StatusGone
		select {
		case w.events <- watch.Event{Type: watch.Error, Object: &status}:
		default:
		}
	}
	w.end()
}

var _ watch.Interface = (*Watch)(nil)
