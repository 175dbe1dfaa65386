package trackedclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
)

// Options are options of NewClients. The zero value is usable.
type Options struct {
	// Tracker holds the options of the Tracker in which the clients record their writes. Unless Tracker.NoBarrier is
	// set, Check returns nil only after Start has returned.
	Tracker expectations.Options
	// Exists, unless nil, reports whether an owner is in the cache. A write for an owner missing in the cache is not
	// recorded: a reconcile may still run after its owner's deletion, and no later call of Forget would remove such a
	// record.
	Exists func(owner types.UID) bool
}

// Clients makes clients that record their writes, and knows the awaited writes of each owner. Clients is safe for
// concurrent use. Make Clients with NewClients. In a manager, add Clients as a runnable: until Start has compared the
// caches with the API server, Check makes all owners wait.
type Clients struct {
	client    client.Client
	apiReader client.Reader
	tracker   *expectations.Tracker
	sources   []Source
	clock     clock.Clock
	exists    func(types.UID) bool
	doubts    doubts
}

// NewClients returns Clients that write through c. apiReader must not read from a cache: with controller-runtime, pass
// the manager's API reader. The error names the missing argument.
func NewClients(c client.Client, apiReader client.Reader, options Options, sources ...Source) (*Clients, error) {
	if c == nil || apiReader == nil {
		return nil, errors.New("trackedclient: a client and an API reader are required")
	}
	for _, s := range sources {
		if s.Store.Resource == "" || s.Kind.Kind == "" || s.Index == nil {
			return nil, fmt.Errorf("trackedclient: source %q needs a store, a kind and an index", s.Store)
		}
	}
	out := &Clients{client: c, apiReader: apiReader, sources: slices.Clone(sources), exists: options.Exists}
	ignores := options.Tracker.Ignores
	options.Tracker.Ignores = func(store expectations.Store) bool {
		s := out.sourceOf(store)
		return s != nil && !s.isServed() || ignores != nil && ignores(store)
	}
	out.tracker = expectations.New(stores(sources), options.Tracker)
	var ok bool
	if out.clock, ok = options.Tracker.Clock.(clock.Clock); !ok {
		out.clock = clock.RealClock{}
	}
	if out.exists == nil {
		out.exists = func(types.UID) bool { return true }
	}
	return out, nil
}

// For returns a client that records its writes to the sources for the owner: Check returns nil for the owner only
// after the cache shows the writes. Reads are not affected, nor are writes to resources without a Source. A call of
// For costs only a small allocation, so make a new client in each reconcile.
func (c *Clients) For(owner types.UID, more ...types.UID) client.Client {
	return &boundClient{Client: c.client, clients: c, owners: append([]types.UID{owner}, more...)}
}

// Tracker returns the Tracker, for writes not made through these clients.
func (c *Clients) Tracker() *expectations.Tracker { return c.tracker }

// Check returns nil when the caches show all of the owner's writes. Otherwise the caller must not decide anything for
// the owner now: the result names the missing writes and the time to reconcile again. Check reads only memory, with
// two exceptions: after a write without a response, Check reads the object from the API server, and after the alarm
// threshold Check reads the owner's objects.
//
// Call Check first, and read the objects for a decision afterwards. The error comes from a read or from the
// Tracker.
func (c *Clients) Check(ctx context.Context, owner metav1.Object) (*expectations.Pending, error) {
	uid := owner.GetUID()
	if err := c.settle(ctx, uid); err != nil {
		return nil, err
	}
	pending, err := c.tracker.Check(uid, c.isPresent)
	if err != nil || pending == nil || !pending.LiveRead {
		return pending, err
	}
	for i := range pending.Awaited {
		if err := c.confirm(ctx, owner, pending.Awaited[i]); err != nil {
			return pending, err
		}
	}
	return pending, nil
}

// Forget removes all records of a deleted owner. Call Forget from an informer's delete handler: a reconcile of a
// deleted owner no longer knows the owner's UID.
func (c *Clients) Forget(owner metav1.Object) {
	c.tracker.Forget(owner.GetUID())
	c.doubts.take(owner.GetUID())
}

func (c *Clients) isPresent(store expectations.Store, uid types.UID) bool {
	s := c.sourceOf(store)
	return s != nil && s.Index.IsPresent(uid)
}

// confirm ends the owner's wait for a cache whose version is too old, if the cache and a list from the API server
// show the same objects of the owner.
func (c *Clients) confirm(ctx context.Context, owner metav1.Object, a expectations.Awaited) error {
	s := c.sourceOf(a.Store)
	if s == nil || a.Barrier {
		return nil
	}
	concerns := func(obj metav1.Object) bool {
		ref := metav1.GetControllerOfNoCopy(obj)
		return obj.GetUID() == owner.GetUID() || (ref != nil && ref.UID == owner.GetUID())
	}
	version, same, err := s.sameAsLive(ctx, c.apiReader, concerns, client.InNamespace(owner.GetNamespace()))
	if err != nil {
		return fmt.Errorf("comparing the late cache of %s: %w", s.Store, err)
	}
	if !same {
		return nil
	}
	return c.tracker.Confirm(owner.GetUID(), s.Store, version)
}

func (c *Clients) sourceOf(store expectations.Store) *Source {
	i := slices.IndexFunc(c.sources, func(s Source) bool { return s.Store == store })
	if i < 0 {
		return nil
	}
	return &c.sources[i]
}
