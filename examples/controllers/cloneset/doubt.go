package cloneset

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
)

// doubts are the writes of owners whose outcome is not known: a request that timed out may have been carried out all the
// same, and nobody told its resourceVersion. Before the next decision each object is read once from the API server, which
// says what the cache has to show first. Without that a Pod whose creation timed out would be created again, and its claim
// deleted as that of a Pod that was lost.
type doubts struct {
	mu     sync.Mutex
	owners map[types.UID][]doubt
}

// doubt is one object that may have been written.
type doubt struct {
	store expectations.Store
	kind  schema.GroupVersionKind
	key   types.NamespacedName
	uid   types.UID // of an object that may have been deleted
}

func (d *doubts) add(owner types.UID, x doubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owners == nil {
		d.owners = map[types.UID][]doubt{}
	}
	d.owners[owner] = append(d.owners[owner], x)
}

func (d *doubts) take(owner types.UID) []doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.owners[owner]
	delete(d.owners, owner)
	slices.SortFunc(all, func(a, b doubt) int { return strings.Compare(a.key.String(), b.key.String()) })
	return all
}

// any reports whether a write of the owner is in doubt: whatever else is decided on its view would lack that write.
func (d *doubts) any(owner types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.owners[owner]) > 0
}

// settle turns the owner's doubts into expectations. What cannot be read now stays in doubt.
func (d *doubts) settle(ctx context.Context, live client.Reader, tracker *expectations.Tracker, owner types.UID) error {
	var failures []error
	for _, x := range d.take(owner) {
		if err := x.settle(ctx, live, tracker, owner); err != nil {
			d.add(owner, x)
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (x doubt) settle(ctx context.Context, live client.Reader, tracker *expectations.Tracker, owner types.UID) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(x.kind)
	err := live.Get(ctx, x.key, found)
	switch {
	case apierrors.IsNotFound(err) && x.uid != "":
		return tracker.Deleted(owner, x.store, x.uid)
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s, of which a write was not answered: %w", x.kind.Kind, x.key, err)
	}
	// Whatever was done to it, and to a predecessor of its name, is not newer than this.
	return tracker.Wrote(owner, x.store, found.ResourceVersion)
}

type ownerKey struct{}

// forOwner makes doubts about writes with this context those of the owner.
func forOwner(ctx context.Context, owner types.UID) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// unanswered reports whether a write that failed may have been carried out.
func unanswered(err error) bool {
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

// doubter is a client that notes the writes that were not answered.
type doubter struct {
	client.Client

	doubts *doubts
}

func (d doubter) note(ctx context.Context, obj client.Object, uid types.UID, err error) error {
	owner, _ := ctx.Value(ownerKey{}).(types.UID)
	if owner == "" || !unanswered(err) {
		return err
	}
	kind, kindErr := d.GroupVersionKindFor(obj)
	if kindErr != nil {
		return errors.Join(err, kindErr)
	}
	for _, known := range []struct {
		kind  string
		store expectations.Store
	}{{"Pod", podStore()}, {"ControllerRevision", revisionStore()}, {"PersistentVolumeClaim", claimStore()}} {
		if known.kind == kind.Kind && known.store.Group == kind.Group {
			d.doubts.add(owner, doubt{store: known.store, kind: kind, key: client.ObjectKeyFromObject(obj), uid: uid})
		}
	}
	return err
}

// Create notes what may have been created.
func (d doubter) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return d.note(ctx, obj, "", d.Client.Create(ctx, obj, opts...))
}

// Patch notes what may have been patched.
func (d doubter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return d.note(ctx, obj, "", d.Client.Patch(ctx, obj, patch, opts...))
}

// Delete notes what may have been deleted.
func (d doubter) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return d.note(ctx, obj, obj.GetUID(), d.Client.Delete(ctx, obj, opts...))
}

// SubResource notes what may have been patched through it.
func (d doubter) SubResource(name string) client.SubResourceClient {
	return subDoubter{d.Client.SubResource(name), d}
}

type subDoubter struct {
	client.SubResourceClient

	doubter doubter
}

// Patch notes what may have been patched.
func (s subDoubter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.doubter.note(ctx, obj, "", s.SubResourceClient.Patch(ctx, obj, patch, opts...))
}
