// Package claimwriter carries out the decisions of package pvc.
//
// RBAC: create, patch and delete on persistentvolumeclaims; get on storageclasses, for ReadClasses.
package claimwriter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// Create creates claims. An existing claim is no error. Create stops at the first failure, and the error names the
// claim.
func Create(ctx context.Context, c client.Writer, claims []*corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		if err := c.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}

// Delete deletes a claim, on condition that the UID is unchanged. A missing claim is no error.
func Delete(ctx context.Context, c client.Writer, claim *corev1.PersistentVolumeClaim) error {
	if err := c.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// HandOver replaces the owner reference of a claim to an owner by a reference to a Pod. The claim is then garbage
// collected when the Pod is deleted. A missing claim is no error.
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

// SetOwners replaces the owner references of a claim, on condition that the resourceVersion is unchanged. A missing
// claim is no error.
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

// Prepare creates the missing claims of a Pod before the Pod is created, and sets the owner references of existing
// claims. If a claim is in the way (pvc.Numbered.InTheWay), or was deleted in the meantime, Prepare returns an error,
// because the Pod would have no claim.
func Prepare(ctx context.Context, c client.Writer, n *pvc.Numbered, pod string) error {
	if n.Claim == nil {
		return errors.New("claimwriter: Numbered.Claim is required: nothing is known of existing claims")
	}
	if inTheWay := n.InTheWay(pod); inTheWay != nil {
		return inTheWay
	}
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

// Classes are the StorageClasses of claims that must be resized. Make Classes with ReadClasses, once for all claims
// of a reconcile.
type Classes struct{ read map[string]class }

// class is a StorageClass, nil if it does not exist, or the reason why it could not be read.
type class struct {
	object *storagev1.StorageClass
	err    error
}

// ReadClasses reads each StorageClass of the claims once, in the order of their names. If a read fails, Grow returns
// the error for each claim of the class.
func ReadClasses(ctx context.Context, r client.Reader, claims []pvc.Small) Classes {
	names := map[string]bool{}
	for _, claim := range claims {
		names[ptr.Deref(claim.Spec.StorageClassName, "")] = true
	}
	delete(names, "")
	out := Classes{read: make(map[string]class, len(names))}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		object := &storagev1.StorageClass{}
		err := r.Get(ctx, client.ObjectKey{Name: name}, object)
		if apierrors.IsNotFound(err) {
			object, err = nil, nil
		}
		out.read[name] = class{object, err}
	}
	return out
}

// Grow makes a claim request the resources in its template, on condition that the resourceVersion is unchanged:
// somebody may have enlarged the claim further. Grow also sets the given annotations on the claim, so that the caller
// can recognise a claim that Grow has resized. If the StorageClass does not allow expansion, the error is final, has
// the code pvc.ClassCannotExpand, and contains path. If the StorageClass of a claim is not among classes, Grow
// returns an error and does not resize the claim.
func Grow(ctx context.Context, c client.Writer, classes Classes, claim pvc.Small, path string, annotations map[string]string) error {
	resources := claim.Template.Spec.Resources
	err := classes.mayGrow(claim, path)
	if err == nil {
		metadata := map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion}
		if len(annotations) > 0 { // null would remove all annotations of the claim
			metadata["annotations"] = annotations
		}
		err = patch(ctx, c, claim.PersistentVolumeClaim, map[string]any{"metadata": metadata, "spec": map[string]any{"resources": resources}})
	}
	if err != nil {
		return fmt.Errorf("growing PersistentVolumeClaim %s/%s to %s: %w", claim.Namespace, claim.Name, resources.Requests.Storage(), err)
	}
	return nil
}

func (c Classes) mayGrow(claim pvc.Small, path string) error {
	name := ptr.Deref(claim.Spec.StorageClassName, "")
	if name == "" {
		return nil
	}
	class, ok := c.read[name]
	switch {
	case !ok:
		return fmt.Errorf("StorageClass %s was not read; give the claim to ReadClasses", name)
	case class.err != nil:
		return class.err
	}
	return reason.Final(pvc.MayGrow(path, name, class.object))
}

// Growth has the settings for GrowAll. Client and Classes are required.
type Growth struct {
	// Client writes the claims. Classes reads StorageClasses.
	Client  client.Writer
	Classes client.Reader
	// Path returns the path of the claim template in the owner's spec, for errors; nil means "spec".
	Path func(claim pvc.Small) string
	// Annotations are set on claims that are resized.
	Annotations map[string]string
	// Told is called after each attempt to resize a claim, with the error of the attempt. Optional. Told must be safe
	// for concurrent use.
	Told func(claim pvc.Small, err error)
}

// growthTask is the task of resizing a claim.
func growthTask() fanout.Task { return fanout.Task{Name: "grow claims"} }

// GrowAll resizes claims concurrently, and reads each StorageClass once. After a failure GrowAll continues with other
// claims. After a refusal, by the API server or because of the StorageClass, a claim is not resized for a while, and
// its StorageClass is not read: see Rest.
func GrowAll(ctx context.Context, pass *fanout.Pass, claims []pvc.Small, how Growth) error {
	due := slices.DeleteFunc(slices.Clone(claims), func(claim pvc.Small) bool { return pass.Rests(growthTask(), claim.UID) })
	classes := ReadClasses(ctx, how.Classes, due)
	return fanout.Each(ctx, pass, growthTask(), claims, func(ctx context.Context, claim pvc.Small) (bool, error) {
		tried, path := false, "spec"
		if how.Path != nil {
			path = how.Path(claim)
		}
		err := pass.Try(growthTask(), claim.UID, func() error {
			tried = true
			return Grow(ctx, how.Client, classes, claim, path, how.Annotations)
		})
		if tried && how.Told != nil {
			how.Told(claim, err)
		}
		return err == nil, err
	})
}

// Rest returns how long the back-off of a claim still lasts after a refused resize; until an attempt succeeds, the
// result is never zero. Use Rest in the function for pvc.Numbered.Rest.
func Rest(f *fanout.Fanout, claim *corev1.PersistentVolumeClaim, now time.Time) time.Duration {
	if !f.Backoff.WasRefused(claim.UID, growthTask()) {
		return 0
	}
	return max(f.Backoff.Rest(claim.UID, now, growthTask()), 1)
}

// ownedBy is a merge patch that replaces the owner references of a claim, with the claim's UID and resourceVersion. A
// merge patch replaces the whole list of references.
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
