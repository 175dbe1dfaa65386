package trackedclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
)

const (
	// pollInterval is the time between two checks of the stores by Start. Each check reads only memory.
	pollInterval = 20 * time.Millisecond
	// patience is how long a store may take to reach the version of the quorum read. After patience, Start compares the
	// store's content instead, once in each compareInterval. A store of a resource that often changes reaches the
	// version within milliseconds; the store of a resource that rarely changes learns a new version only about once a
	// minute, although no object is missing.
	patience        = 200 * time.Millisecond
	compareInterval = time.Second
	// firstRetry and lastRetry bound the wait of Start after a failed read; each wait is twice the previous wait.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// NeedLeaderElection makes a controller-runtime manager call Start after gaining leadership.
func (*Clients) NeedLeaderElection() bool { return true }

// Start waits until the caches show the writes of a previous leader. Call Start once leadership is gained; a manager
// with Clients as a runnable does so. Start waits until the caches have synced, makes a quorum read per source (a list
// of at most one object, metadata only), and returns once each cache has reached the version read or, after a while,
// holds the same objects as the API server. Until Start returns, Check makes all owners wait unless the option
// NoBarrier is set, so workers may already run.
//
// Start repeats a read after a temporary failure (no response, a timeout, an error of the server, throttling) until
// ctx ends, with backoff and a log line. Start must do so itself, because a manager stops if Start returns an error.
// Start returns any other error: NoProgress for a cache that does not report its version, a refused read, an error of
// the Tracker, or the error of ctx. After such an error the caller may call Start again.
func (c *Clients) Start(ctx context.Context) error {
	if err := c.poll(ctx, func() (bool, error) { return c.synced(), nil }); err != nil {
		return fmt.Errorf("waiting for the first list of the caches: %w", err)
	}
	if err := c.tracker.Verify(); err != nil {
		return err
	}
	for i := range c.sources {
		s := &c.sources[i]
		version, err := c.patientVersion(ctx, s)
		if err != nil {
			return err
		}
		if err := c.tracker.Require(s.Store, version); err != nil {
			return fmt.Errorf("after the quorum read of %s: %w", s.Store, err)
		}
	}
	compare := c.clock.Now().Add(patience)
	err := c.poll(ctx, func() (bool, error) {
		// No owner has the empty UID, so Check waits only for barriers.
		pending, err := c.tracker.Check("", nil)
		if pending == nil || err != nil || c.clock.Now().Before(compare) {
			return pending == nil, err
		}
		compare = c.clock.Now().Add(compareInterval)
		for i := range pending.Awaited {
			if err := c.compare(ctx, pending.Awaited[i].Store); passes(err) {
				logr.FromContextOrDiscard(ctx).Error(err, "comparing again", "after", compareInterval)
			} else if err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the caches: %w", err)
	}
	return nil
}

func (c *Clients) synced() bool {
	for i := range c.sources {
		if !c.sources[i].Index.HasSynced() {
			return false
		}
	}
	return true
}

// poll calls done until done returns true or an error. If the context ends first, the error names the caches that
// Start still waits for.
func (c *Clients) poll(ctx context.Context, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if pending, err := c.tracker.Check("", nil); err == nil && pending != nil {
				return fmt.Errorf("%w: %s", context.Cause(ctx), pending)
			}
			return context.Cause(ctx)
		case <-c.clock.After(pollInterval):
		}
	}
}

// patientVersion calls quorumVersion until the call succeeds or fails with an error that is not temporary.
func (c *Clients) patientVersion(ctx context.Context, s *Source) (string, error) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		version, err := c.quorumVersion(ctx, s)
		if !passes(err) {
			return version, err
		}
		logr.FromContextOrDiscard(ctx).Error(err, "reading again", "after", wait)
		select {
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), err)
		case <-c.clock.After(wait):
		}
	}
}

// passes reports whether the same read may succeed a moment later: the error is temporary.
func passes(err error) bool {
	return isUnanswered(err) || apierrors.IsTooManyRequests(err) || isUnserved(err)
}

// quorumVersion returns the resourceVersion of a list that contains all writes to which the API server responded
// before. If the API server does not have the resource, no write was possible: the version is the version of the
// cache, unless the cache shows objects without which owners cannot be reconciled.
func (c *Clients) quorumVersion(ctx context.Context, s *Source) (string, error) {
	if !s.isServed() {
		return s.Index.LastStoreSyncResourceVersion(), nil
	}
	list := s.newList()
	err := c.apiReader.List(ctx, list, append([]client.ListOption{client.Limit(1)}, s.Restrict...)...)
	switch {
	case isUnserved(err) && len(s.Index.Versions(nil)) == 0:
		return s.Index.LastStoreSyncResourceVersion(), nil
	case err != nil:
		return "", fmt.Errorf("quorum read of %s: %w", s.Store, err)
	}
	return list.ResourceVersion, nil
}

// isUnserved reports whether the API server does not serve the listed resource.
func isUnserved(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// compare ends the barrier of a cache (Tracker.Lift) if the cache holds the same objects as the API server. The
// cache's version may lag behind although no event is missing; the cache equals the list exactly when every event has
// been delivered.
func (c *Clients) compare(ctx context.Context, store expectations.Store) error {
	s := c.sourceOf(store)
	version, same, err := s.sameAsLive(ctx, c.apiReader, nil)
	if err != nil {
		return fmt.Errorf("comparing the cache of %s: %w", s.Store, err)
	}
	if !same {
		return nil
	}
	return c.tracker.Lift(s.Store, version)
}
