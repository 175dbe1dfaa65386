package pvc

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Retention says with which object the claims of Pods are deleted, if Pods are recreated with the same name. Retention
// works by owner references: the garbage collector deletes a claim when all its owners are deleted. The zero value
// keeps claims after the deletion of Pods and owner. See KEP-1847.
type Retention struct {
	// WithOwner deletes claims when the owner is deleted.
	WithOwner bool
	// WithPod deletes the claims of a Pod that is no longer wanted together with the Pod. If a Pod is replaced, its
	// claims are kept.
	WithPod bool
}

// Owners returns the owner references that a claim should have, and whether they differ from the present references.
// name is the name of the Pod using the claim. pod is this Pod, or nil if the Pod does not exist. wanted is true if the
// owner wants a Pod with the name. Owners removes references to earlier Pods with the name: otherwise the claim would
// be deleted with such a Pod, although the new Pod uses the claim. References to other owners are kept, and if somebody
// else controls a claim, all its references are kept. Write the references before deleting an unwanted Pod. Call
// IsStale before creating a Pod.
func (r Retention) Owners(
	claim *corev1.PersistentVolumeClaim, owner metav1.OwnerReference, name string, pod *corev1.Pod, wanted bool,
) (refs []metav1.OwnerReference, differ bool) {
	refs = claim.OwnerReferences
	if controllerBeside(claim, owner.UID, name) != nil {
		return refs, false
	}
	uid := types.UID("")
	if pod != nil {
		uid = pod.UID
	}
	if IsStale(claim, name, uid) {
		refs = slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return isPod(ref, name) && ref.UID != uid })
	}
	refs = withReference(refs, owner, r.WithOwner && (wanted || !r.WithPod))
	if pod != nil {
		refs = withReference(refs, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}, r.WithPod && !wanted)
	}
	return refs, len(refs) != len(claim.OwnerReferences) || slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool {
		return !has(claim.OwnerReferences, ref.UID)
	})
}

// withReference returns the references with ref if wanted is true, otherwise without ref. withReference does not modify
// refs.
func withReference(refs []metav1.OwnerReference, ref metav1.OwnerReference, wanted bool) []metav1.OwnerReference {
	switch {
	case has(refs, ref.UID) == wanted:
		return refs
	case wanted:
		return append(slices.Clip(refs), ref)
	}
	return slices.DeleteFunc(slices.Clone(refs), func(other metav1.OwnerReference) bool { return other.UID == ref.UID })
}

func has(refs []metav1.OwnerReference, uid types.UID) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// IsStale reports whether a claim will be deleted with an earlier Pod with the name: the claim refers to a Pod with the
// name and a UID other than uid. Do not create a Pod before the claim is deleted: the Pod would lose its volume. uid is
// empty if no Pod with the name exists.
func IsStale(claim *corev1.PersistentVolumeClaim, pod string, uid types.UID) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return isPod(ref, pod) && ref.UID != uid })
}

// controllerBeside returns the controller of a claim, nil if the controller is the owner or a Pod of the given name.
func controllerBeside(claim *corev1.PersistentVolumeClaim, owner types.UID, pod string) *metav1.OwnerReference {
	if ref := metav1.GetControllerOfNoCopy(claim); ref != nil && ref.UID != owner && !isPod(*ref, pod) {
		return ref
	}
	return nil
}

func isPod(ref metav1.OwnerReference, name string) bool {
	return ref.APIVersion == "v1" && ref.Kind == "Pod" && ref.Name == name
}
