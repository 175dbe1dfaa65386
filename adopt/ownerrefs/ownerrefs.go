// Package ownerrefs writes the owner references decided on by package adopt.
//
// Owner references of built-in kinds (Pods, ControllerRevisions, PersistentVolumeClaims, ...) merge by UID in a
// strategic merge patch. For custom resources the API server does not support strategic merge patches (415). Ownerrefs
// then replaces the whole list of owner references, on condition of the given resourceVersion, as Kubernetes' garbage
// collector does (pkg/controller/garbagecollector/patch.go).
//
// RBAC: patch on the objects, and get on the owner for adoption. If the admission plugin
// OwnerReferencesPermissionEnforcement is on, the controller also needs delete on the objects, and for adoption update
// on finalizers of the owner's kind.
package ownerrefs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// OwnerGone means that the owner has been deleted, is being deleted, or was replaced by another object of the same
	// name since the cache has read the owner. Nothing was adopted.
	OwnerGone reason.Code = "OwnerGone"
	// AdoptionLost means that an object could not be adopted because the object has another controller by now, or was
	// replaced by another object of the same name.
	AdoptionLost reason.Code = "AdoptionLost"
)

// lostAgain is the time until the next reconcile after a failed adoption (AdoptionLost): a change to an object under
// another controller does not enqueue the owner.
const lostAgain = 30 * time.Second

// Adopt makes the owner of the fanout.Pass the controller of the objects. Before the first patch Adopt reads the
// owner from apiReader. apiReader must not be a cache. If the owner is deleted, terminating or replaced, Adopt adopts
// nothing (OwnerGone): the garbage collector would delete adopted objects together with the owner, or no controller
// would ever release them. Each patch carries the object's UID.
//
// An object that no longer exists is no error. The error joins the failures of all objects. AdoptionLost is a final
// error, because a retry does not help before the cache has caught up; the owner is reconciled again later. Any other
// failure is the API server's error, such as a conflict because a custom resource has changed since the cache has
// read the resource.
func Adopt[T client.Object](ctx context.Context, pass *fanout.Pass, c client.Client, apiReader client.Reader, objects []T) error {
	if len(objects) == 0 {
		return nil
	}
	owner := pass.Owner()
	kind, err := c.GroupVersionKindFor(owner)
	if err != nil {
		return fmt.Errorf("adopting: kind of %T: %w", owner, err)
	}
	if err := recheck(ctx, apiReader, owner, kind); err != nil {
		return err
	}
	yes := true
	mine := metav1.OwnerReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: owner.GetName(), UID: owner.GetUID(),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
	take := &change{owner: mine.UID, entry: mine, add: []metav1.OwnerReference{mine}}
	return patchAll(ctx, pass, "adopt", c, objects, take, func(object reason.Object, err error) error {
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsInvalid(err):
			pass.Wake(lostAgain)
			// The error does not wrap its cause, because the fanout.Pass would treat the cause as a refusal of all
			// objects.
			return reason.Final(reason.Reason{
				Code: AdoptionLost, Object: object, Path: "metadata.ownerReferences", Detail: err.Error(),
				Remedy: "wait for the cache, then decide again",
			})
		}
		return fmt.Errorf("adopting %s: %w", object, err)
	})
}

// Release removes the reference to the owner of the pass from the objects, and does not change other references. An
// object that is deleted, replaced by another object of the same name, or without the reference is no error. Other
// failures, conflicts included, are joined, and the caller may retry.
func Release[T client.Object](ctx context.Context, pass *fanout.Pass, c client.Client, objects []T) error {
	uid := pass.Owner().GetUID()
	leave := &change{owner: uid, entry: map[string]string{"$patch": "delete", "uid": string(uid)}}
	return patchAll(ctx, pass, "release", c, objects, leave, func(object reason.Object, err error) error {
		if apierrors.IsNotFound(err) || isOtherUID(err) {
			return nil
		}
		return fmt.Errorf("releasing %s: %w", object, err)
	})
}

// recheck reads the owner's metadata from the API server.
func recheck(ctx context.Context, apiReader client.Reader, owner client.Object, kind schema.GroupVersionKind) error {
	fresh := &metav1.PartialObjectMetadata{}
	fresh.SetGroupVersionKind(kind)
	gone := reason.Reason{Code: OwnerGone, Object: reason.ObjectOf(kind.Kind, owner), Remedy: "wait for the cache, then decide again"}
	err := apiReader.Get(ctx, client.ObjectKeyFromObject(owner), fresh)
	switch {
	case apierrors.IsNotFound(err):
		gone.Detail = "it does not exist"
		return gone
	case err != nil:
		return fmt.Errorf("reading %s before adoption: %w", gone.Object, err)
	case fresh.UID != owner.GetUID():
		gone.Path, gone.Old, gone.New = "metadata.uid", string(owner.GetUID()), string(fresh.UID)
		return gone
	case fresh.DeletionTimestamp != nil:
		gone.Path, gone.Detail = "metadata.deletionTimestamp", "it is being deleted"
		return gone
	}
	return nil
}

// change is an addition or removal of the owner's reference: the entry for a strategic merge patch, and the references
// that replace the owner's references in a whole list.
type change struct {
	owner types.UID
	entry any
	add   []metav1.OwnerReference
}

// merge returns the metadata of a strategic merge patch. The UID makes the API server refuse the patch if another
// object of the same name has replaced the object.
func (g *change) merge(object client.Object) map[string]any {
	return map[string]any{"uid": object.GetUID(), "ownerReferences": []any{g.entry}}
}

// replace returns the metadata of a merge patch. The list is computed from the version that was read, so the patch
// carries the resourceVersion of this version.
func (g *change) replace(object client.Object) map[string]any {
	others := slices.DeleteFunc(slices.Clone(object.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return ref.UID == g.owner })
	return map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "ownerReferences": append(others, g.add...),
	}
}

// patchAll changes the owner's reference in each object. settle turns a failed patch into an error, or into nil if
// nothing remains to be done.
func patchAll[T client.Object](
	ctx context.Context, pass *fanout.Pass, verb string, c client.Client, objects []T, change *change, settle func(reason.Object, error) error,
) error {
	if len(objects) == 0 {
		return nil
	}
	kind, err := c.GroupVersionKindFor(objects[0])
	if err != nil {
		return fmt.Errorf("kind of %T: %w", objects[0], err)
	}
	var unmerged atomic.Bool // true once the API server has answered that the kind's lists cannot be merged
	return fanout.Each(ctx, pass, fanout.Task{Name: verb + " " + kind.Kind + "s"}, objects, func(ctx context.Context, object T) (bool, error) {
		var err error
		if !unmerged.Load() {
			err = send(ctx, c, kind, object, types.StrategicMergePatchType, change.merge(object))
			unmerged.CompareAndSwap(false, apierrors.IsUnsupportedMediaType(err))
		}
		if unmerged.Load() {
			err = send(ctx, c, kind, object, types.MergePatchType, change.replace(object))
		}
		if err != nil {
			return false, settle(reason.ObjectOf(kind.Kind, object), err)
		}
		return true, nil
	})
}

// send patches the metadata of an object.
func send(ctx context.Context, c client.Client, kind schema.GroupVersionKind, object client.Object, how types.PatchType, metadata map[string]any) error {
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	answer := &metav1.PartialObjectMetadata{}
	answer.SetGroupVersionKind(kind)
	answer.Namespace, answer.Name = object.GetNamespace(), object.GetName()
	return c.Patch(ctx, answer, client.RawPatch(how, raw))
}

// isOtherUID recognises the API server's error for a patch whose UID is not the UID of the stored object. An
// admission policy may refuse with the same code.
func isOtherUID(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
