package trackedclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/reason"
)

// target is an object about to be written, by resource and name. A nil target means that the object's resource has no
// Source.
type target struct {
	owners []types.UID
	source *Source
	key    types.NamespacedName
	uid    types.UID // UID of an object to be deleted
}

// boundClient is a client that records its writes for the given owners.
type boundClient struct {
	client.Client

	clients *Clients
	owners  []types.UID
}

// target finds out, before a write is sent, for which object the write must be recorded. target refuses a write whose
// outcome could not be awaited.
func (b *boundClient) target(kind schema.GroupVersionKind, key types.NamespacedName) (*target, error) {
	sources := b.clients.sources
	i := slices.IndexFunc(sources, func(s Source) bool { return s.Kind.GroupKind() == kind.GroupKind() })
	if i < 0 {
		return nil, nil
	}
	t := &target{owners: b.owners, source: &sources[i], key: key}
	if slices.Contains(t.owners, "") {
		return nil, t.refuse(NoOwner, "make the client for an owner that the API server has created")
	}
	return t, nil
}

func (t *target) refuse(code reason.Code, remedy string) error {
	return reason.Reason{
		Code: code, Object: reason.Object{Kind: t.source.Kind.Kind, Namespace: t.key.Namespace, Name: t.key.Name},
		Path: t.source.Store.String(), Remedy: remedy,
	}
}

func (b *boundClient) targetOf(obj client.Object) (*target, error) {
	kind, err := b.GroupVersionKindFor(obj)
	if err != nil {
		return nil, fmt.Errorf("kind of %T: %w", obj, err)
	}
	return b.target(kind, client.ObjectKeyFromObject(obj))
}

// send makes a call that gives the object a new version, and records this version. answered is false if the response
// does not contain the object's new version.
func (b *boundClient) send(obj client.Object, dryRun []string, answered bool, call func() error) error {
	if len(dryRun) > 0 {
		return charged(call)
	}
	t, err := b.targetOf(obj)
	if err != nil {
		return err
	}
	if err = charged(call); answered {
		return b.clients.record(t, obj.GetResourceVersion(), err)
	}
	return b.clients.record(t, "", err)
}

// charges is the largest number of attempts at a write if each attempt fails with a conflict about a ResourceQuota.
const charges = 5

// charged makes a call, and repeats the call after each conflict about a ResourceQuota. The API server answers with a
// conflict, even to a creation, if other requests are charged to the quota at the same time (k8s.io/apiserver,
// pkg/admission/plugin/resourcequota/controller.go, checkQuotas). The request is valid, nothing was written, and the
// next attempt usually succeeds.
func charged(call func() error) (err error) {
	for range charges {
		if err = call(); !isAboutQuota(err) {
			return err
		}
	}
	return err
}

// isAboutQuota reports whether the conflict is about a quota, and not about the written object.
func isAboutQuota(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsConflict(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Group == "" && details.Kind == "resourcequotas"
}

// record records the outcome of a write that gave the object a new version, or may have done so.
func (c *Clients) record(t *target, version string, err error) error {
	switch {
	case t == nil:
		return err
	case err == nil && version != "":
		for _, owner := range c.existing(t.owners) {
			err = errors.Join(err, c.tracker.Wrote(owner, t.source.Store, version))
		}
	case err == nil, isUnanswered(err), apierrors.IsAlreadyExists(err):
		// If the API server says that the object exists already, the cache does not show the object yet.
		c.doubt(t)
	}
	return err
}

// existing returns the owners that are still in the cache. The cache removes an owner before calling its delete
// handlers, so record adds no entry after Forget.
func (c *Clients) existing(owners []types.UID) []types.UID {
	return slices.DeleteFunc(slices.Clone(owners), func(owner types.UID) bool { return !c.exists(owner) })
}

// doubt remembers a write whose outcome is unknown.
func (c *Clients) doubt(t *target) {
	t.owners = c.existing(t.owners)
	c.doubts.add(t)
}

func (b *boundClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	dryRun := (&client.CreateOptions{}).ApplyOptions(opts).DryRun
	return b.send(obj, dryRun, true, func() error { return b.Client.Create(ctx, obj, opts...) })
}

func (b *boundClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	dryRun := (&client.UpdateOptions{}).ApplyOptions(opts).DryRun
	return b.send(obj, dryRun, true, func() error { return b.Client.Update(ctx, obj, opts...) })
}

func (b *boundClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	dryRun := (&client.PatchOptions{}).ApplyOptions(opts).DryRun
	return b.send(obj, dryRun, true, func() error { return b.Client.Patch(ctx, obj, patch, opts...) })
}

// Delete deletes the object and records the deletion. The object must have its UID, or a precondition must name the
// UID: otherwise Delete returns NotTrackable.
func (b *boundClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if len(options.DryRun) > 0 {
		return b.Client.Delete(ctx, obj, opts...)
	}
	t, err := b.targetOf(obj)
	if err != nil {
		return err
	}
	if t != nil {
		if t.uid = obj.GetUID(); t.uid == "" && options.Preconditions != nil && options.Preconditions.UID != nil {
			t.uid = *options.Preconditions.UID
		}
		if t.uid == "" {
			return t.refuse(NotTrackable, "name the UID of what is to be deleted")
		}
	}
	err = b.Client.Delete(ctx, obj, opts...)
	switch {
	case t == nil:
	case err == nil, apierrors.IsNotFound(err): // the cache may still show an object that the API server has deleted
		for _, owner := range b.clients.existing(t.owners) {
			err = errors.Join(err, b.clients.tracker.Deleted(owner, t.source.Store, t.uid))
		}
	case isUnanswered(err):
		b.clients.doubt(t)
	}
	return err
}

// DeleteAllOf deletes a collection if the resource has no Source. If the resource has a Source, DeleteAllOf sends no
// request and returns NotTrackable.
func (b *boundClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	t, err := b.targetOf(obj)
	if err != nil {
		return err
	}
	if t != nil {
		return t.refuse(NotTrackable, "delete the objects one by one")
	}
	return b.Client.DeleteAllOf(ctx, obj, opts...)
}

func (b *boundClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	var options client.ApplyOptions
	for _, opt := range opts {
		opt.ApplyToApply(&options)
	}
	return b.sendConfiguration(obj, options.DryRun, func() error { return b.Client.Apply(ctx, obj, opts...) })
}

// sendConfiguration is like send, for an apply configuration, whose fields can be read only through its JSON.
func (b *boundClient) sendConfiguration(obj runtime.ApplyConfiguration, dryRun []string, call func() error) error {
	if len(dryRun) > 0 {
		return charged(call)
	}
	before, err := metadataOf(obj)
	if err != nil {
		return err
	}
	t, err := b.target(before.GroupVersionKind(), client.ObjectKeyFromObject(before))
	if err != nil {
		return err
	}
	if err := charged(call); err != nil || t == nil {
		return b.clients.record(t, "", err)
	}
	after, err := metadataOf(obj)
	if err != nil {
		b.clients.doubt(t)
		return err
	}
	return b.clients.record(t, after.ResourceVersion, nil)
}

func metadataOf(obj runtime.ApplyConfiguration) (*metav1.PartialObjectMetadata, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	out := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("reading the metadata of %T: %w", obj, err)
	}
	return out, nil
}

// Status returns a client for the status subresource that records its writes.
func (b *boundClient) Status() client.SubResourceWriter { return b.SubResource("status") }

// SubResource returns a client for a subresource that records its writes.
func (b *boundClient) SubResource(name string) client.SubResourceClient {
	return &subClient{SubResourceClient: b.Client.SubResource(name), b: b}
}

// subClient is a boundClient for a subresource.
type subClient struct {
	client.SubResourceClient

	b *boundClient
}

// Create creates the subresource, such as an eviction or a binding. The response does not contain the resourceVersion
// of the object.
func (s *subClient) Create(ctx context.Context, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
	dryRun := (&client.SubResourceCreateOptions{}).ApplyOptions(opts).DryRun
	return s.b.send(obj, dryRun, false, func() error { return s.SubResourceClient.Create(ctx, obj, body, opts...) })
}

// Update replaces the subresource. The response contains the object's version unless the subresource has a type of its
// own.
func (s *subClient) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	options := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	return s.b.send(obj, options.DryRun, options.SubResourceBody == nil, func() error {
		return s.SubResourceClient.Update(ctx, obj, opts...)
	})
}

// Patch patches the subresource. The response contains the object's version unless the subresource has a type of its
// own.
func (s *subClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	options := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	return s.b.send(obj, options.DryRun, options.SubResourceBody == nil, func() error {
		return s.SubResourceClient.Patch(ctx, obj, patch, opts...)
	})
}

// Apply applies the configuration to the subresource.
func (s *subClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	options := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	return s.b.sendConfiguration(obj, options.DryRun, func() error { return s.SubResourceClient.Apply(ctx, obj, opts...) })
}
