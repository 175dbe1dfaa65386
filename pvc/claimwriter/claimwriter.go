// Package claimwriter writes the decisions of package pvc.
//
// RBAC: create, patch and delete on persistentvolumeclaims; get on storageclasses, for Grow.
package claimwriter

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// Create creates claims. An existing claim is no error. Create stops at the first failure and names the claim in the
// error.
func Create(ctx context.Context, c client.Writer, claims []*corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		if err := c.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}

// Delete deletes a claim, provided that the UID is unchanged. A missing claim is no error.
func Delete(ctx context.Context, c client.Writer, claim *corev1.PersistentVolumeClaim) error {
	if err := c.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// HandOver replaces an owner of a claim by a Pod. The claim then goes together with the Pod. A missing claim is no
// error.
func HandOver(ctx context.Context, c client.Writer, owner types.UID, t pvc.Transfer) error {
	owners := make([]metav1.OwnerReference, 0, len(t.Claim.OwnerReferences)+1)
	for _, ref := range t.Claim.OwnerReferences {
		if ref.UID != owner && ref.UID != t.Pod.UID {
			owners = append(owners, ref)
		}
	}
	owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: t.Pod.Name, UID: t.Pod.UID})
	if err := patch(ctx, c, t.Claim, map[string]any{"metadata": ownedBy(t.Claim, owners)}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("handing PersistentVolumeClaim %s/%s over to Pod %s: %w", t.Claim.Namespace, t.Claim.Name, t.Pod.Name, err)
	}
	return nil
}

// SetOwners gives a claim other owner references, provided that the resourceVersion is unchanged. A missing claim is no
// error.
func SetOwners(ctx context.Context, c client.Writer, claim pvc.Owned) error {
	return client.IgnoreNotFound(setOwners(ctx, c, claim))
}

func setOwners(ctx context.Context, c client.Writer, claim pvc.Owned) error {
	err := patch(ctx, c, claim.PersistentVolumeClaim, map[string]any{"metadata": ownedBy(claim.PersistentVolumeClaim, claim.Owners)})
	if err != nil {
		return fmt.Errorf("setting the owners of PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// Prepare creates the missing claims of a Pod before its creation, and gives the existing claims their wanted owners. A
// claim gone by now is an error, because the Pod would have no claim.
func Prepare(ctx context.Context, c client.Writer, n *pvc.Numbered, pod string) error {
	if err := Create(ctx, c, n.Missing(pod)); err != nil {
		return err
	}
	for _, claim := range n.Owned(pod, nil, true) {
		if err := setOwners(ctx, c, claim); err != nil {
			return err
		}
	}
	return nil
}

// Grow has a claim ask for the resources of its template, provided that the resourceVersion is unchanged: somebody may
// have enlarged the claim further. Grow puts annotations on the claim, by which the caller recognises the claim after
// its volume has grown. Grow first reads the StorageClass from classes: a class without growth is a final error with
// code pvc.ClassCannotExpand, and the error contains path.
func Grow(ctx context.Context, c client.Writer, classes client.Reader, claim pvc.Small, path string, annotations map[string]string) error {
	resources := claim.Template.Spec.Resources
	err := mayGrow(ctx, classes, claim, path)
	if err == nil {
		metadata := map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion}
		if len(annotations) > 0 { // null would remove all that the claim has
			metadata["annotations"] = annotations
		}
		err = patch(ctx, c, claim.PersistentVolumeClaim, map[string]any{"metadata": metadata, "spec": map[string]any{"resources": resources}})
	}
	if err != nil {
		return fmt.Errorf("growing PersistentVolumeClaim %s/%s to %s: %w", claim.Namespace, claim.Name, resources.Requests.Storage(), err)
	}
	return nil
}

func mayGrow(ctx context.Context, classes client.Reader, claim pvc.Small, path string) error {
	name := claim.Spec.StorageClassName
	if name == nil || *name == "" {
		return nil
	}
	class := &storagev1.StorageClass{}
	switch err := classes.Get(ctx, client.ObjectKey{Name: *name}, class); {
	case apierrors.IsNotFound(err):
		class = nil
	case err != nil:
		return err
	}
	return reason.Final(pvc.MayGrow(path, *name, class))
}

// ownedBy is metadata with other owner references, bound to the claim's UID and resourceVersion. A merge patch replaces
// the whole list.
func ownedBy(claim *corev1.PersistentVolumeClaim, owners []metav1.OwnerReference) map[string]any {
	if owners == nil {
		owners = []metav1.OwnerReference{}
	}
	return map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion, "ownerReferences": owners}
}

func patch(ctx context.Context, c client.Writer, claim *corev1.PersistentVolumeClaim, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	changed := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	return c.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body))
}
