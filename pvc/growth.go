package pvc

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// ClaimDiffers means that a claim cannot become like its template, because only the size of a claim can change.
	ClaimDiffers reason.Code = "ClaimDiffers"
	// ClaimOfAnother means that a claim is not made to grow, because somebody else than the owner of the Pods controls the
	// claim, or has Pods that use the claim.
	ClaimOfAnother reason.Code = "ClaimOfAnother"
	// ClassCannotExpand means that a claim cannot grow, because its StorageClass does not exist or does not allow growth.
	ClassCannotExpand reason.Code = "ClassCannotExpand"
)

// IsSmaller reports whether a claim asks for less storage than its template. A larger claim is never made smaller.
func IsSmaller(claim, template *corev1.PersistentVolumeClaim) bool {
	has, wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage], template.Spec.Resources.Requests[corev1.ResourceStorage]
	return has.Cmp(wanted) < 0
}

// Differences returns the obstacles between a claim and its template: the storage class, if the template names a class,
// and the access modes. Differences returns nil if at most the size differs.
func Differences(claim, template *corev1.PersistentVolumeClaim) (list reason.List) {
	differs := func(path, old, wanted string) {
		if old != wanted {
			list = append(list, reason.Reason{
				Code: ClaimDiffers, Object: reason.ObjectOf("PersistentVolumeClaim", claim), Path: path, Old: old, New: wanted,
				Remedy: "delete the claim and its Pod to have both made anew, or leave the template as it was",
			})
		}
	}
	if template.Spec.StorageClassName != nil {
		differs("spec.storageClassName", ptr.Deref(claim.Spec.StorageClassName, ""), *template.Spec.StorageClassName)
	}
	differs("spec.accessModes", modes(claim), modes(template))
	return list
}

func modes(claim *corev1.PersistentVolumeClaim) string {
	names := make([]string, len(claim.Spec.AccessModes))
	for i, mode := range claim.Spec.AccessModes {
		names[i] = string(mode)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// MayGrow returns why claims of a StorageClass cannot grow, nil if they can. class is nil if no class has the name.
// Without a name there is no class to ask, and the API server decides.
func MayGrow(path, name string, class *storagev1.StorageClass) error {
	switch {
	case name == "":
		return nil
	case class == nil:
		return reason.Reason{
			Code: ClassCannotExpand, Path: path, Object: reason.Object{Kind: "StorageClass", Name: name}, Detail: "the StorageClass does not exist",
			Remedy: "create it, or leave the size as it was",
		}
	case !Expands(class):
		return reason.Reason{
			Code: ClassCannotExpand, Path: path, Object: reason.Object{Kind: "StorageClass", Name: name}, Detail: "the StorageClass does not allow volumes to grow",
			Remedy: "set allowVolumeExpansion in it, or leave the size as it was",
		}
	}
	return nil
}

// Expands reports whether a StorageClass lets claims grow. A class without a word on growth does not, and nor does a
// missing class.
func Expands(class *storagev1.StorageClass) bool {
	return class != nil && ptr.Deref(class.AllowVolumeExpansion, false)
}

// HasGrown reports whether the volume of a claim is as large as the claim asks for.
func HasGrown(claim *corev1.PersistentVolumeClaim) bool {
	has, wanted := claim.Status.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return has.Cmp(wanted) >= 0
}

// NeedsRestart reports whether a claim waits for a new start of its Pod: the volume has grown, but not the file system
// on the volume. If kubelet and driver can grow the file system under a running Pod, the condition goes away by itself.
func NeedsRestart(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue
	})
}
