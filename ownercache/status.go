package ownercache

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteStatus replaces the owner's status if status differs from the last known status: the status that the view has
// written before or, if there is none, the status in the cache. Changes that the caller makes to View.Owner are
// ignored. Calls must not overlap. status is a value of the type of the owner's field Status. If the owner was
// deleted or replaced, WriteStatus writes nothing and returns no error. WriteStatus returns the newest known
// resourceVersion of the owner that still has the observed spec. The version of a newer spec must not become a
// precondition, because a write decided on the observed spec would then undo the newer spec.
//
// Use WriteStatus only for a status that nobody else writes. It would overwrite what other writers, such as webhooks
// that spend from a budget, have written: see WriteSharedStatus.
//
// The write is a JSON patch with a test of the UID. A merge patch is not enough: the API server ignores the UID in a
// patch of a custom resource's status, so another object of the same name would get the status.
func (v *View[O]) WriteStatus(ctx context.Context, status any) (version string, err error) {
	changed, err := v.patchStatus(ctx, status)
	switch {
	case err != nil:
		return "", err
	case changed != nil && (*changed).GetGeneration() == v.Owner.GetGeneration():
		v.version = (*changed).GetResourceVersion()
	}
	return cmp.Or(v.version, v.Owner.GetResourceVersion()), nil
}

// sharedRetry is the time until the next reconcile of an owner whose status somebody else has written: a change of
// the status alone does not enqueue the owner.
const sharedRetry = 100 * time.Millisecond

// WriteSharedStatus is like WriteStatus, for a status with several writers, such as a status with a disruption.Ledger:
// the status is written only if nobody has written the owner since the view was made. Otherwise written is false, and
// the owner is requeued soon. written is also true if the status is unchanged, or if the owner was deleted or replaced.
func (v *View[O]) WriteSharedStatus(ctx context.Context, status any) (written bool, err error) {
	// If the resourceVersion has changed, the API server answers with a conflict.
	version := cmp.Or(v.version, v.Owner.GetResourceVersion())
	changed, err := v.patchStatus(ctx, status, map[string]any{"op": "replace", "path": "/metadata/resourceVersion", "value": version})
	switch {
	case apierrors.IsConflict(err):
		v.WakeAfter(sharedRetry)
		return false, nil
	case changed != nil:
		v.version = (*changed).GetResourceVersion()
	}
	return err == nil, err
}

// patchStatus replaces the status if it differs from the last known status, provided that the given test operations
// succeed. It returns nil if nothing was written: if the status is unchanged, or if the owner was deleted or replaced.
func (v *View[O]) patchStatus(ctx context.Context, status any, conditions ...map[string]any) (changed *O, err error) {
	old, err := v.seenStatus(status)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("the status of %s %s/%s", v.cache.kind.Kind, v.Owner.GetNamespace(), v.Owner.GetName())
	value, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	if same := v.sent == nil && equality.Semantic.DeepEqual(old, status); same || bytes.Equal(v.sent, value) {
		return nil, nil //nolint:nilnil // nothing to write
	}
	body, err := json.Marshal(append(append([]map[string]any{{"op": "test", "path": "/metadata/uid", "value": v.Owner.GetUID()}}, conditions...),
		map[string]any{"op": "add", "path": "/status", "value": json.RawMessage(value)}))
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	owner := newOwner[O]()
	owner.SetNamespace(v.Owner.GetNamespace())
	owner.SetName(v.Owner.GetName())
	err = v.Client.Status().Patch(ctx, owner, client.RawPatch(types.JSONPatchType, body))
	switch {
	case apierrors.IsNotFound(err), isReplaced(err):
		return nil, nil //nolint:nilnil // a missing owner is no error
	case err != nil:
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	v.sent = value
	return &owner, nil
}

// seenStatus returns the status in the cache, provided that the status to write has the same type.
func (v *View[O]) seenStatus(status any) (any, error) {
	field := reflect.ValueOf(v.seen).Elem().FieldByName("Status")
	if !field.IsValid() || field.Type() != reflect.TypeOf(status) {
		return nil, fmt.Errorf("ownercache: a %T is not the status of %s %s/%s", status, v.cache.kind.Kind, v.Owner.GetNamespace(), v.Owner.GetName())
	}
	return field.Interface(), nil
}

// PatchSpec merges fields into the owner's spec, for the few spec fields that a controller itself writes. version is
// the result of WriteStatus, so only a change by another client leads to a conflict (apierrors.IsConflict). A missing
// owner is no error.
func (v *View[O]) PatchSpec(ctx context.Context, version string, fields map[string]any) error {
	name := fmt.Sprintf("%s %s/%s", v.cache.kind.Kind, v.Owner.GetNamespace(), v.Owner.GetName())
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": v.Owner.GetUID(), "resourceVersion": version}, "spec": fields})
	if err != nil {
		return fmt.Errorf("encoding the spec of %s: %w", name, err)
	}
	changed := newOwner[O]()
	changed.SetNamespace(v.Owner.GetNamespace())
	changed.SetName(v.Owner.GetName())
	if err := v.Client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the spec of %s: %w", name, err)
	}
	return nil
}

// SetFinalizer adds a finalizer to the owner, or removes the finalizer. SetFinalizer writes nothing if the owner
// already has, or already lacks, the finalizer as wanted. If the owner has changed since the view was made, or since
// the view's last write, the error is a conflict. Adding a finalizer to a deleted owner is also a conflict, because
// no object that needs the finalizer may be created. Removing a finalizer from a deleted owner is no error.
// Afterwards View.Owner has the new finalizers and resourceVersion.
func (v *View[O]) SetFinalizer(ctx context.Context, finalizer string, wanted bool) (changed bool, err error) {
	finalizers := v.Owner.GetFinalizers()
	if slices.Contains(finalizers, finalizer) == wanted {
		return false, nil
	}
	if wanted {
		finalizers = append(slices.Clone(finalizers), finalizer)
	} else {
		finalizers = slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == finalizer })
	}
	name := fmt.Sprintf("the finalizers of %s %s/%s", v.cache.kind.Kind, v.Owner.GetNamespace(), v.Owner.GetName())
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": v.Owner.GetUID(), "resourceVersion": cmp.Or(v.version, v.Owner.GetResourceVersion()), "finalizers": finalizers,
	}})
	if err != nil {
		return false, fmt.Errorf("encoding %s: %w", name, err)
	}
	written := newOwner[O]()
	written.SetNamespace(v.Owner.GetNamespace())
	written.SetName(v.Owner.GetName())
	err = v.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, body))
	switch {
	case apierrors.IsNotFound(err) && wanted:
		plural, _ := meta.UnsafeGuessKindToResource(v.cache.kind)
		gone := apierrors.NewConflict(plural.GroupResource(), v.Owner.GetName(), errors.New("the object was deleted"))
		return false, fmt.Errorf("writing %s: %w", name, gone)
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("writing %s: %w", name, err)
	}
	v.version = written.GetResourceVersion()
	v.Owner.SetFinalizers(written.GetFinalizers())
	v.Owner.SetResourceVersion(v.version)
	return true, nil
}

// isReplaced recognises the API server's error after a failed test of the UID in a JSON patch. This error names no
// field, whereas an error about an invalid value names the field. The error of a webhook may name no field either.
func isReplaced(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && apierrors.IsInvalid(err) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0) &&
		!strings.HasPrefix(status.Status().Message, "admission webhook ")
}
