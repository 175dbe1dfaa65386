package apply

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
)

// Client is a client whose writes are awaited. Reads pass through unchanged, as do writes to resources that are no source.
// It is safe for concurrent use. Make it with NewClient.
type Client struct {
	client.Client

	live    client.Reader
	tracker *expectations.Tracker
	sources []Source
	clock   clock.Clock
	doubts  doubts
}

// NewClient returns a client that writes through c. live must not read from a cache: with controller-runtime it is the
// manager's API reader. The options are those of the tracker that the client makes; set Barrier and add the client to the
// manager where several replicas take turns.
func NewClient(c client.Client, live client.Reader, options expectations.Options, sources ...Source) *Client {
	out := &Client{Client: c, live: live, tracker: expectations.New(stores(sources), options), sources: slices.Clone(sources)}
	var ok bool
	if out.clock, ok = options.Clock.(clock.Clock); !ok {
		out.clock = clock.RealClock{}
	}
	return out
}

// Live returns the reader that does not read from a cache.
func (c *Client) Live() client.Reader { return c.live }

// Tracker returns the tracker, to record what was written in other ways.
func (c *Client) Tracker() *expectations.Tracker { return c.tracker }

type ownersKey struct{}

// For returns a context whose writes are those of the owners: none of them is to decide anything before the cache shows
// the writes. It replaces the owners that ctx had.
func For(ctx context.Context, owners ...types.UID) context.Context {
	return context.WithValue(ctx, ownersKey{}, owners)
}

// Check returns nil when the caches show all of the owner's writes. Otherwise nothing may be decided for it now: what is
// missing and when to look again is in the answer. It costs nothing but memory access, unless a write was not answered
// (then that object is read from the API server) or the cache is late (then the owner's objects are).
//
// Read what you decide on after Check, not before it. The error is that of a read, or of the tracker.
func (c *Client) Check(ctx context.Context, owner metav1.Object) (*expectations.Pending, error) {
	uid := owner.GetUID()
	if err := c.settle(ctx, uid); err != nil {
		return nil, err
	}
	pending, err := c.tracker.Check(uid, c.isLive)
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

// Forget drops everything about an owner. Call it when the owner is gone.
func (c *Client) Forget(owner types.UID) {
	c.tracker.Forget(owner)
	c.doubts.take(owner)
}

func (c *Client) isLive(store expectations.Store, uid types.UID) bool {
	s := c.sourceOf(store)
	return s != nil && s.Index.IsLive(uid)
}

// confirm ends the wait for a cache that is late when it shows the same of the owner as the API server.
func (c *Client) confirm(ctx context.Context, owner metav1.Object, a expectations.Awaited) error {
	s := c.sourceOf(a.Store)
	if s == nil || a.Barrier {
		return nil
	}
	concerns := func(obj metav1.Object) bool {
		ref := metav1.GetControllerOfNoCopy(obj)
		return obj.GetUID() == owner.GetUID() || (ref != nil && ref.UID == owner.GetUID())
	}
	version, same, err := s.sameAsLive(ctx, c.live, concerns, client.InNamespace(owner.GetNamespace()))
	if err != nil {
		return fmt.Errorf("comparing the late cache of %s: %w", s.Store, err)
	}
	if !same {
		return nil
	}
	return c.tracker.Confirm(owner.GetUID(), s.Store, version)
}

func (c *Client) sourceOf(store expectations.Store) *Source {
	i := slices.IndexFunc(c.sources, func(s Source) bool { return s.Store == store })
	if i < 0 {
		return nil
	}
	return &c.sources[i]
}
