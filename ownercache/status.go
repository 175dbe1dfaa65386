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

// WriteStatus replaces the owner's status where it differs from the one that the cache showed, whatever became of Owner since. status is a
// value of the type of the owner's field Status. An owner that is gone or was replaced is no error. It
// returns the newest known resourceVersion of the owner that has the spec it was observed with: another spec's version must not
// become a precondition, because it would let a write that was decided on this spec undo the other.
//
// It is for a status that one controller writes. What others write to it, such as webhooks that spend from a budget, is lost: there, patch with the
// resourceVersion that was read (client.MergeFromWithOptimisticLock).
//
// It is a JSON patch that tests the UID. A merge patch would not do: the API server does not look at the UID that a patch of a
// custom resource's status names, so that a successor would get it.
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

// seenStatus returns the status that the cache showed, if the one to write is of its type.
func (v *View[O]) seenStatus(status any) (any, error) {
	field := reflect.ValueOf(v.seen).Elem().FieldByName("Status")
	if !field.IsValid() || field.Type() != reflect.TypeOf(status) {
		return nil, fmt.Errorf("ownercache: a %T is not the status of %s %s/%s", status, v.cache.kind.Kind, v.Owner.GetNamespace(), v.Owner.GetName())
	}
	return field.Interface(), nil
}

// PatchSpec merges fields into the owner's spec, for the few that a controller writes itself. version is what WriteStatus has
// returned: then only a change of somebody else's is a conflict, which apierrors.IsConflict recognises. An owner that is gone is
// no error.
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

// isReplaced recognises the answer to a JSON patch whose test of the UID failed. The API server names no field then, as it
// does where a value is wrong; a webhook that denies the write may name none either.
func isReplaced(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && apierrors.IsInvalid(err) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0) &&
		!strings.HasPrefix(status.Status().Message, "admission webhook ")
}
