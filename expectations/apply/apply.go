// Package apply asks the API server how far the caches must be before a new leader may act.
//
// RBAC: list on the resources of the given stores.
package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/reason"
)

// Source says how to read a store's resource from the API server.
type Source struct {
	Store expectations.Store
	// Kind of the objects, such as v1 Pod.
	Kind schema.GroupVersionKind
	// Namespace that the store is restricted to; empty for all.
	Namespace string
}

// pollInterval is how often CatchUp looks at the stores. It looks at memory only.
const pollInterval = 20 * time.Millisecond

// CatchUp is called once leadership is gained. It makes one quorum read per source (a list of at most one object, its
// metadata only), tells the tracker which versions the stores must reach, and returns once they have. The tracker's Check
// refuses all owners meanwhile, so workers may run already; make the tracker with the option Barrier, so that it refuses
// from the start.
//
// live must not read from a cache: with controller-runtime it is the manager's API reader. CatchUp returns the first error:
// of a read, of the tracker, or of ctx, and UnknownStore when a store of the tracker has no source. It may be called again
// then.
func CatchUp(ctx context.Context, live client.Reader, tracker *expectations.Tracker, c clock.Clock, sources ...Source) error {
	for _, store := range tracker.Stores() {
		if !slices.ContainsFunc(sources, func(s Source) bool { return s.Store == store }) {
			return reason.Reason{
				Code: expectations.UnknownStore, Path: store.String(), Detail: "no source tells how to read it",
				Remedy: "pass a source for each store of the tracker",
			}
		}
	}
	for _, source := range sources {
		version, err := quorumVersion(ctx, live, source)
		if err != nil {
			return err
		}
		if err := tracker.Require(source.Store, version); err != nil {
			return fmt.Errorf("after the quorum read of %s: %w", source.Store, err)
		}
	}
	for {
		// No owner has the empty UID, so only barriers are left to wait for.
		pending, err := tracker.Check("", nil)
		if err != nil {
			return fmt.Errorf("waiting for the caches: %w", err)
		}
		if pending == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the caches: %w: %s", context.Cause(ctx), pending)
		case <-c.After(pollInterval):
		}
	}
}

// quorumVersion returns the version of a list that is served from storage, which no write that was answered before is
// missing from. Leaving the list's resourceVersion unset is what asks for that.
func quorumVersion(ctx context.Context, live client.Reader, source Source) (string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(source.Kind.GroupVersion().WithKind(source.Kind.Kind + "List"))
	if err := live.List(ctx, list, client.Limit(1), client.InNamespace(source.Namespace)); err != nil {
		return "", fmt.Errorf("quorum read of %s: %w", source.Store, err)
	}
	return list.ResourceVersion, nil
}
