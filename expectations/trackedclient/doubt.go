package trackedclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// doubts are the writes with an unknown outcome ("in doubt"), by owner. The zero value is ready for use.
type doubts struct {
	mu     sync.Mutex
	owners map[types.UID][]*target
}

func (d *doubts) add(t *target) {
	for _, owner := range t.owners {
		d.addTo(owner, t)
	}
}

func (d *doubts) addTo(owner types.UID, t *target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owners == nil {
		d.owners = map[types.UID][]*target{}
	}
	d.owners[owner] = append(d.owners[owner], t)
}

func (d *doubts) take(owner types.UID) []*target {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.owners[owner]
	delete(d.owners, owner)
	slices.SortFunc(all, func(a, b *target) int { return strings.Compare(a.key.String(), b.key.String()) })
	return all
}

// InDoubt reports whether a write of the owner since the last Check got no response. Any further decision on the same
// observed objects would ignore this write.
//
// If InDoubt returns true, finish the current kind of action (such as creations) on other objects, but begin no other
// kind of action in this reconcile: the decision may be based on an outdated state.
func (c *Clients) InDoubt(owner metav1.Object) bool {
	c.doubts.mu.Lock()
	defer c.doubts.mu.Unlock()
	return len(c.doubts.owners[owner.GetUID()]) > 0
}

// drop removes a write in doubt for all owners that wait for its outcome, and returns the owners.
func (d *doubts) drop(t *target) (owners []types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, owner := range t.owners {
		before := len(d.owners[owner])
		left := slices.DeleteFunc(d.owners[owner], func(other *target) bool { return other == t })
		if d.owners[owner] = left; len(left) == 0 {
			delete(d.owners, owner)
		}
		if len(left) < before {
			owners = append(owners, owner)
		}
	}
	return owners
}

// settle finds out the outcomes of the owner's writes in doubt, and records the versions or deletions to wait for. An
// object that cannot be read now stays in doubt.
func (c *Clients) settle(ctx context.Context, owner types.UID) error {
	var failures []error
	for _, t := range c.doubts.take(owner) {
		record, err := c.find(ctx, t)
		if err != nil {
			c.doubts.addTo(owner, t)
			failures = append(failures, err)
			continue
		}
		// A single read is enough for all owners that wait for the write.
		for _, awaiting := range append(c.doubts.drop(t), owner) {
			if c.exists(awaiting) {
				failures = append(failures, record(awaiting))
			}
		}
	}
	return errors.Join(failures...)
}

// find reads the present state of an object, and returns a function that records the state for an owner.
func (c *Clients) find(ctx context.Context, t *target) (record func(owner types.UID) error, err error) {
	wrote := func(version string) func(types.UID) error {
		return func(owner types.UID) error { return c.tracker.Wrote(owner, t.source.Store, version) }
	}
	if t.key.Name == "" {
		// The name is unknown, because the API server was to generate the name. A list read now includes a created
		// object.
		version, err := c.quorumVersion(ctx, t.source)
		if err != nil {
			return nil, err
		}
		return wrote(version), nil
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(t.source.Kind)
	err = c.apiReader.Get(ctx, t.key, found)
	switch {
	case apierrors.IsNotFound(err) && t.uid != "":
		return func(owner types.UID) error { return c.tracker.Deleted(owner, t.source.Store, t.uid) }, nil
	case apierrors.IsNotFound(err):
		return func(types.UID) error { return nil }, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s, of which a write was not answered: %w", t.source.Kind.Kind, t.key, err)
	}
	// The found version can be awaited in place of the write's version: the write went to this object or to an earlier
	// object of the same name, so the write's version is not newer.
	return wrote(found.ResourceVersion), nil
}

// isUnanswered reports whether a write with this error may nevertheless have been carried out.
func isUnanswered(err error) bool {
	if err == nil {
		return false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true // the server has sent no response
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusRequestTimeout
}
