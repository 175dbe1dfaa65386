package ownercache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteStatus replaces the owner's status if status differs from the status in the cache, regardless of later changes
// to Owner. status is a value of the type of the owner's field Status. A missing or replaced owner is no error.
// WriteStatus returns the newest known resourceVersion of the owner with the observed spec. The version of another spec
// must not become a precondition, because a write decided on the observed spec would then undo the other spec.
//
// WriteStatus is for a status with a single writing controller. Writes of others, such as webhooks that spend from a
// budget, are lost: there, patch with the resourceVersion of the read (client.MergeFromWithOptimisticLock).
//
// The write is a JSON patch with a test of the UID. A merge patch would not do: the API server ignores the UID in a
// patch of a custom resource's status, so a successor would get the status.
func (v *View[O]) WriteStatus(ctx context.Context, status any) (version string, err error) {
	version = v.Owner.GetResourceVersion()
	old, err := v.seenStatus(status)
	if err != nil {
		return "", err
	}
	if equality.Semantic.DeepEqual(old, status) {
		return version, nil
	}
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": v.Owner.GetUID()},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return "", fmt.Errorf("encoding the status of %s %s/%s: %w", v.cache.kind.Kind, v.Owner.GetNamespace(), v.Owner.GetName(), err)
	}
	changed := newOwner[O]()
	changed.SetNamespace(v.Owner.GetNamespace())
	changed.SetName(v.Owner.GetName())
	err = v.Client.Status().Patch(ctx, changed, client.RawPatch(types.JSONPatchType, body))
	switch {
	case apierrors.IsNotFound(err), isReplaced(err):
		return version, nil
	case err != nil:
		return "", fmt.Errorf("writing the status of %s %s/%s: %w", v.cache.kind.Kind, v.Owner.GetNamespace(), v.Owner.GetName(), err)
	case changed.GetGeneration() != v.Owner.GetGeneration():
		return version, nil
	}
	return changed.GetResourceVersion(), nil
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

// isReplaced recognises the answer to a JSON patch with a failed test of the UID. The API server then names no field,
// whereas an invalid value has a named field. A denying webhook may name no field either.
func isReplaced(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && apierrors.IsInvalid(err) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0) &&
		!strings.HasPrefix(status.Status().Message, "admission webhook ")
}
