package apply

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

// doubts are the writes whose outcome is not known, by owner. The zero value is ready for use.
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

// InDoubt reports whether a write of the owner was not answered since the last Check. Whatever else is decided on the same
// view would lack that write.
func (c *Client) InDoubt(owner types.UID) bool {
	c.doubts.mu.Lock()
	defer c.doubts.mu.Unlock()
	return len(c.doubts.owners[owner]) > 0
}

// settle turns the owner's doubts into what the cache has to show. What cannot be read now stays in doubt.
func (c *Client) settle(ctx context.Context, owner types.UID) error {
	var failures []error
	for _, t := range c.doubts.take(owner) {
		if err := c.find(ctx, owner, t); err != nil {
			c.doubts.addTo(owner, t)
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// find reads what has become of an object.
func (c *Client) find(ctx context.Context, owner types.UID, t *target) error {
	if t.key.Name == "" {
		// Its name was to be generated. Whatever was made is in a list of now.
		version, err := c.quorumVersion(ctx, t.source)
		if err != nil {
			return err
		}
		return c.tracker.Wrote(owner, t.source.Store, version)
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(t.source.Kind)
	err := c.live.Get(ctx, t.key, found)
	switch {
	case apierrors.IsNotFound(err) && t.uid != "":
		return c.tracker.Deleted(owner, t.source.Store, t.uid)
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s, of which a write was not answered: %w", t.source.Kind.Kind, t.key, err)
	}
	// Whatever was done to it, and to a predecessor of its name, is not newer than this.
	return c.tracker.Wrote(owner, t.source.Store, found.ResourceVersion)
}

// Unanswered reports whether a write that failed with this error may have been carried out all the same.
func Unanswered(err error) bool {
	if err == nil {
		return false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true // no answer at all
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusRequestTimeout
}
