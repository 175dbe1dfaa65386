// Package apply writes the owner references that package claim decided on.
//
// It works on the built-in kinds (Pods, ControllerRevisions, PersistentVolumeClaims, ...), whose owner references merge by
// UID in a strategic merge patch. Custom resources have no such merge.
//
// RBAC: patch on the objects; get on the owner, for adoption.
package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/slowstart"
)

const (
	// OwnerGone means that the owner has been deleted, is being deleted, or was replaced by another of its name since it was
	// read into the cache. Nothing was adopted.
	OwnerGone reason.Code = "OwnerGone"
	// LostClaim means that an object could not be adopted because it has another controller by now, or another object has
	// its name.
	LostClaim reason.Code = "LostClaim"
)

// Patcher is what writing needs of a controller-runtime client.
type Patcher interface {
	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
}

// Owner is who adopts and releases.
type Owner struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
	UID       types.UID
}

// Claimed is an object as a patch left it. Its version is what expectations should await.
type Claimed struct {
	UID             types.UID
	ResourceVersion string
}

// Adopt makes the owner the controller of the objects, which are all of one kind. Before the first patch it reads the owner
// from live, which must not be a cache: an owner that is gone, terminating or replaced adopts nothing (OwnerGone), because
// what it adopted would be garbage collected or never released. Each patch carries the object's UID.
//
// Objects that are gone by now are left out of the result without an error. Other failures are joined: LostClaim where
// trying again does not help before the cache has caught up, and what the API server answered otherwise.
func Adopt[T metav1.Object](
	ctx context.Context, c Patcher, live client.Reader, owner Owner, kind schema.GroupVersionKind, objects []T,
) ([]Claimed, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	if err := recheck(ctx, live, owner); err != nil {
		return nil, err
	}
	yes := true
	return patchAll(ctx, c, kind, objects, func(object metav1.Object) any {
		return body(object.GetUID(), metav1.OwnerReference{
			APIVersion: owner.Kind.GroupVersion().String(), Kind: owner.Kind.Kind, Name: owner.Name, UID: owner.UID,
			Controller: &yes, BlockOwnerDeletion: &yes,
		})
	}, func(object metav1.Object, err error) error {
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsInvalid(err):
			return reason.Reason{
				Code: LostClaim, Object: about(kind, object), Path: "metadata.ownerReferences", Detail: err.Error(),
				Remedy: "wait for the cache, then decide again",
			}.With(err)
		}
		return fmt.Errorf("adopting %s: %w", about(kind, object), err)
	})
}

// Release removes the owner's reference from the objects, which are all of one kind, and leaves those of others alone. An
// object that is gone, was replaced by another of its name, or has lost the reference already is released as well; it is
// left out of the result without an error. Other failures, conflicts included, are joined and may be tried again.
func Release[T metav1.Object](
	ctx context.Context, c Patcher, owner Owner, kind schema.GroupVersionKind, objects []T,
) ([]Claimed, error) {
	return patchAll(ctx, c, kind, objects, func(object metav1.Object) any {
		return body(object.GetUID(), map[string]string{"$patch": "delete", "uid": string(owner.UID)})
	}, func(object metav1.Object, err error) error {
		if apierrors.IsNotFound(err) || isOtherUID(err) {
			return nil
		}
		return fmt.Errorf("releasing %s: %w", about(kind, object), err)
	})
}

// recheck reads the owner's metadata from the API server.
func recheck(ctx context.Context, live client.Reader, owner Owner) error {
	fresh := &metav1.PartialObjectMetadata{}
	fresh.SetGroupVersionKind(owner.Kind)
	gone := reason.Reason{
		Code:   OwnerGone,
		Object: reason.Object{Kind: owner.Kind.Kind, Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID},
		Remedy: "wait for the cache, then decide again",
	}
	err := live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, fresh)
	switch {
	case apierrors.IsNotFound(err):
		gone.Detail = "it does not exist"
		return gone
	case err != nil:
		return fmt.Errorf("reading %s before adoption: %w", gone.Object, err)
	case fresh.UID != owner.UID:
		gone.Path, gone.Old, gone.New = "metadata.uid", string(owner.UID), string(fresh.UID)
		return gone
	case fresh.DeletionTimestamp != nil:
		gone.Path, gone.Detail = "metadata.deletionTimestamp", "it is being deleted"
		return gone
	}
	return nil
}

// patchAll patches with slow start, so that a right that is missing costs one request. settle turns a failed patch into
// an error, or nil where there is nothing left to do.
func patchAll[T metav1.Object](
	ctx context.Context, c Patcher, kind schema.GroupVersionKind, objects []T,
	bodyOf func(metav1.Object) any, settle func(metav1.Object, error) error,
) ([]Claimed, error) {
	var mu sync.Mutex
	claimed := make([]Claimed, 0, len(objects))
	var failures []error
	_, err := slowstart.Run(ctx, len(objects), 1, func(ctx context.Context, i int) error {
		object := objects[i]
		raw, err := json.Marshal(bodyOf(object))
		if err != nil {
			return fmt.Errorf("encoding the patch of %s: %w", about(kind, object), err)
		}
		answer := &metav1.PartialObjectMetadata{}
		answer.SetGroupVersionKind(kind)
		answer.Namespace, answer.Name = object.GetNamespace(), object.GetName()
		err = c.Patch(ctx, answer, client.RawPatch(types.StrategicMergePatchType, raw))
		if err != nil {
			err = settle(object, err)
			if errors.Is(err, LostClaim) { // says nothing about the other objects, so it does not stop them
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
				return nil
			}
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		claimed = append(claimed, Claimed{UID: object.GetUID(), ResourceVersion: answer.ResourceVersion})
		return nil
	})
	return claimed, errors.Join(append(failures, err)...)
}

// body is a strategic merge patch of one owner reference. The UID makes the API server refuse a successor.
func body(uid types.UID, reference any) any {
	return map[string]any{"metadata": map[string]any{"uid": uid, "ownerReferences": []any{reference}}}
}

// isOtherUID recognises the API server's answer to a patch that names another UID than the stored object's. A policy may
// refuse with the same code.
func isOtherUID(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

func about(kind schema.GroupVersionKind, object metav1.Object) reason.Object {
	return reason.Object{Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
}
