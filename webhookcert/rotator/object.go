package rotator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

// kind has the functions with which the Rotator handles objects of a kind.
type kind struct {
	name   string
	object func() client.Object
	list   func() client.ObjectList
	// compare is nil for the Secret, which needs no comparison
	compare func(client.Object, webhookcert.ClientConfig) (webhookcert.Diff, error)
}

func secretKind() kind {
	return kind{
		name:   "Secret",
		object: func() client.Object { return &corev1.Secret{} },
		list:   func() client.ObjectList { return &corev1.SecretList{} },
	}
}

func mutatingKind() kind {
	return kind{
		name:   "MutatingWebhookConfiguration",
		object: func() client.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
		list:   func() client.ObjectList { return &admissionregistrationv1.MutatingWebhookConfigurationList{} },
		compare: func(live client.Object, want webhookcert.ClientConfig) (webhookcert.Diff, error) {
			return webhookcert.DiffMutating(live.(*admissionregistrationv1.MutatingWebhookConfiguration), want)
		},
	}
}

func validatingKind() kind {
	return kind{
		name:   "ValidatingWebhookConfiguration",
		object: func() client.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
		list:   func() client.ObjectList { return &admissionregistrationv1.ValidatingWebhookConfigurationList{} },
		compare: func(live client.Object, want webhookcert.ClientConfig) (webhookcert.Diff, error) {
			return webhookcert.DiffValidating(live.(*admissionregistrationv1.ValidatingWebhookConfiguration), want)
		},
	}
}

// conversionKind handles CustomResourceDefinitions as unstructured objects. Their Go type is in a module that the kit
// does not import.
func conversionKind() kind {
	gvk := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	return kind{
		name: gvk.Kind,
		object: func() client.Object {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(gvk)
			return u
		},
		list: func() client.ObjectList {
			u := &unstructured.UnstructuredList{}
			u.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			return u
		},
		compare: func(live client.Object, want webhookcert.ClientConfig) (webhookcert.Diff, error) {
			return webhookcert.DiffConversion(live.(*unstructured.Unstructured), want)
		},
	}
}

// attempts counts the failures of an action that is retried until the action succeeds. ref names the object of the
// action in reports, and never changes.
type attempts struct {
	ref      reason.Object
	retryAt  time.Time
	failures int    // number of failures in a row
	failed   string // the error that was logged last
}

// succeeded resets the record of failures.
func (a *attempts) succeeded() { a.failures, a.retryAt, a.failed = 0, time.Time{}, "" }

// clockJumped is called after a jump of the clock. A recorded time in the future is set to now.
func (a *attempts) clockJumped(now time.Time) {
	if a.retryAt.After(now) {
		a.retryAt = now
	}
}

// object is the Rotator's knowledge about an object. kind and key never change; only the goroutine of Start uses the
// other fields.
type object struct {
	attempts

	kind kind
	key  client.ObjectKey

	synced  bool
	live    client.Object // nil if the object does not exist
	differs *reason.Reason
	unable  reason.Reason  // why the object cannot hold a CA bundle
	lacks   *reason.Reason // the last value reported to the observer
	bucket  bucket
	said    reason.Reason
}

func newObject(k kind, key client.ObjectKey, options *Options) *object {
	return &object{
		attempts: attempts{ref: reason.Object{Kind: k.name, Namespace: key.Namespace, Name: key.Name}},
		kind:     k, key: key, bucket: bucket{size: options.Burst, interval: options.Interval},
	}
}

// clockJumped is called after a jump of the clock. Recorded times in the future are set to now.
func (o *object) clockJumped(now time.Time) {
	o.attempts.clockJumped(now)
	if o.bucket.since.After(now) {
		o.bucket.since = now
	}
}

// bucket is a token bucket that limits the rate of an action: size times at once, and then once per interval.
type bucket struct {
	size     int
	interval time.Duration
	used     int
	since    time.Time // when a token was last added
}

// peek reports whether the action is allowed now, and if not, the time at which the action will be allowed.
func (b *bucket) peek(now time.Time) (bool, time.Time) {
	if back := int(now.Sub(b.since) / b.interval); b.used > 0 && back > 0 {
		b.used = max(b.used-back, 0)
		b.since = b.since.Add(time.Duration(back) * b.interval)
	}
	if b.used == 0 {
		b.since = now
	}
	if b.used >= b.size {
		return false, b.since.Add(b.interval)
	}
	return true, time.Time{}
}

// take returns the same as peek, and uses up a token if the action is allowed.
func (b *bucket) take(now time.Time) (bool, time.Time) {
	may, again := b.peek(now)
	if may {
		b.used++
	}
	return may, again
}

// event reports the present state of an object, or an error. A nil live means that the object does not exist.
type event struct {
	object  *object
	live    client.Object
	version string
	err     error
}

// inbox holds events that the Rotator has not processed yet. put never blocks, so a slow Rotator does not delay
// watches. inbox is safe for concurrent use.
type inbox struct {
	filled chan struct{} // has an entry if there may be events

	mu     sync.Mutex
	events []event
}

func newInbox() *inbox { return &inbox{filled: make(chan struct{}, 1)} }

// put adds an event, and replaces an older event of the same kind about the same object: only the last state and the
// last error of an object matter.
func (b *inbox) put(e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	same := func(other event) bool { return other.object == e.object && (other.err == nil) == (e.err == nil) }
	b.events = append(slices.DeleteFunc(b.events, same), e)
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// empty removes and returns all events.
func (b *inbox) empty() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.filled:
	default:
	}
	out := b.events
	b.events = nil
	return out
}

// take records the object in an event, unless the Rotator already knows a newer version of the object from the
// response to its own write.
func (r *Rotator) take(ctx context.Context, e event) {
	o := e.object
	if e.err != nil {
		r.complain(ctx, &o.attempts, e.err)
		return
	}
	if o.live != nil && (e.live == nil || e.live.GetUID() == o.live.GetUID()) {
		order, err := resourceversion.CompareResourceVersion(e.version, o.live.GetResourceVersion())
		if err == nil && order < 0 {
			return
		}
	}
	o.synced, o.live = true, e.live
}

// refresh reads an object from the API server.
func (r *Rotator) refresh(ctx context.Context, o *object) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	live := o.kind.object()
	err := r.options.Client.Get(ctx, o.key, live)
	switch {
	case apierrors.IsNotFound(err):
		o.live = nil
	case err != nil:
		return fmt.Errorf("reading %s: %w", o.ref, err)
	default:
		o.live = live
	}
	return nil
}

// follow sends an object's events to out until the context ends.
func (r *Rotator) follow(ctx context.Context, o *object, out *inbox) {
	const shortest, longest = 250 * time.Millisecond, 30 * time.Second
	pause := shortest
	for ctx.Err() == nil {
		if err := r.followOnce(ctx, o, out); err != nil {
			out.put(event{object: o, err: err})
			pause = min(2*pause, longest)
		} else {
			pause = shortest
		}
		timer := r.options.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// followOnce reads the object and watches the object. followOnce ends well within an overlap, so that, if a connection
// breaks without an error, the known version is never older than an overlap.
func (r *Rotator) followOnce(ctx context.Context, o *object, out *inbox) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	this := []client.ListOption{client.InNamespace(o.key.Namespace), client.MatchingFields{"metadata.name": o.key.Name}}
	version, err := r.listOne(ctx, o, this, out)
	if err != nil {
		return err
	}
	watcher, err := r.options.Client.Watch(ctx, o.kind.list(), append(this, &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: version},
	})...)
	if err != nil {
		return fmt.Errorf("watching %s: %w", o.ref, err)
	}
	defer watcher.Stop()
	timer := r.options.Clock.NewTimer(min(max(r.config.Overlap/4, time.Second), 5*time.Minute))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
			return nil
		case e, open := <-watcher.ResultChan():
			if !open {
				return nil
			}
			if e.Type == watch.Error {
				if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
					return fmt.Errorf("watching %s: %w", o.ref, err)
				}
				return nil
			}
			pass(o, e, out)
		}
	}
}

// pass converts a watch event about the object and puts the result into out.
func pass(o *object, e watch.Event, out *inbox) {
	live, ok := e.Object.(client.Object)
	if !ok || e.Type == watch.Bookmark || client.ObjectKeyFromObject(live) != o.key {
		return
	}
	news := event{object: o, live: live, version: live.GetResourceVersion()}
	if e.Type == watch.Deleted {
		news.live = nil
	}
	out.put(news)
}

// listOne reads the object by a list request. A watch can begin at the list's resourceVersion even if the object does
// not exist.
func (r *Rotator) listOne(ctx context.Context, o *object, this []client.ListOption, out *inbox) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	list := o.kind.list()
	if err := r.options.Client.List(ctx, list, this...); err != nil {
		return "", fmt.Errorf("listing %s: %w", o.ref, err)
	}
	news := event{object: o, version: list.GetResourceVersion()}
	items, err := meta.ExtractList(list)
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", o.ref, err)
	}
	for _, item := range items {
		if live, ok := item.(client.Object); ok && client.ObjectKeyFromObject(live) == o.key {
			news.live, news.version = live, live.GetResourceVersion()
		}
	}
	out.put(news)
	return list.GetResourceVersion(), nil
}
