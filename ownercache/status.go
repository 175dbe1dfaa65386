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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteStatus replaces the owner's status if status differs from the status in the cache, or from the one written by
// the view before, regardless of later changes to Owner. Calls must not overlap. status is a value of the type of the
// owner's field Status. A missing or replaced owner is no error. WriteStatus returns the newest known resourceVersion
// of the owner with the observed spec. The version of another spec must not become a precondition, because a write
// decided on the observed spec would then undo the other spec.
//
// WriteStatus is for a status with a single writing controller. Writes of others, such as webhooks that spend from a
// budget, are lost: see WriteSharedStatus.
//
// The write is a JSON patch with a test of the UID. A merge patch would not do: the API server ignores the UID in a
// patch of a custom resource's status, so a successor would get the status.
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

// sharedRetry is the time until another look at an owner whose status somebody else has written meanwhile: the event of
// a status wakes nobody.
const sharedRetry = 100 * time.Millisecond

// WriteSharedStatus is WriteStatus for a status with several writers, such as a status with a disruption.Ledger: the
// status is written only if nobody has written the owner since the view. Otherwise written is false, and the owner is
// reconciled again soon. An unchanged status counts as written, and so does that of a missing or replaced owner.
func (v *View[O]) WriteSharedStatus(ctx context.Context, status any) (written bool, err error) {
	// The API server answers another resourceVersion with a conflict.
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

// patchStatus replaces a status that differs from the last one known, on condition of the operations. It returns nil if
// nothing was written: for the same status, and for a missing or replaced owner.
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
		return nil, nil //nolint:nilnil // no owner, no error
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

// PatchSpec merges fields into the owner's spec, for the few fields written by a controller itself. version is the
// result of WriteStatus: then only a foreign change is a conflict, recognised by apierrors.IsConflict. A missing owner
// is no error.
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

// SetFinalizer adds a finalizer to the owner, or removes the finalizer, unless the owner is as wanted already. The
// owner must be as seen, or as last written by the view: otherwise the error is a conflict. The view has the new
// finalizers and version afterwards. A missing owner is no error.
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

// isReplaced recognises the answer to a JSON patch with a failed test of the UID. The API server then names no field,
// whereas an invalid value has a named field. A denying webhook may name no field either.
func isReplaced(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && apierrors.IsInvalid(err) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0) &&
		!strings.HasPrefix(status.Status().Message, "admission webhook ")
}
