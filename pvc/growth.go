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
	// ClaimDiffers means that a claim cannot be changed to match its template, because only the size of a claim can
	// change.
	ClaimDiffers reason.Code = "ClaimDiffers"
	// ClaimOfAnother means that a claim is not resized, because somebody else than the owner of the Pods controls the
	// claim, or uses the claim in Pods.
	ClaimOfAnother reason.Code = "ClaimOfAnother"
	// ClassCannotExpand means that a claim cannot be resized, because its StorageClass does not exist or does not allow
	// expansion.
	ClassCannotExpand reason.Code = "ClassCannotExpand"
)

// IsSmaller reports whether a claim requests less storage than its template. Claims larger than their template are
// never shrunk.
func IsSmaller(claim, template *corev1.PersistentVolumeClaim) bool {
	has, wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage], template.Spec.Resources.Requests[corev1.ResourceStorage]
	return has.Cmp(wanted) < 0
}

// Differences returns the reasons why a claim cannot be made equal to its template: the storage class, if the template
// names a class, and the access modes. Differences returns nil if at most the size differs.
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

// MayGrow returns the reason why claims of a StorageClass cannot be resized, nil if a resize is possible. class is
// nil if no class with the name exists. If the name is empty, the class is unknown, and the API server decides.
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

// Expands reports whether a StorageClass allows claims to be resized. A missing class, or a class without
// allowVolumeExpansion, does not allow a resize.
func Expands(class *storagev1.StorageClass) bool {
	return class != nil && ptr.Deref(class.AllowVolumeExpansion, false)
}

// HasGrown reports whether the volume of a claim is as large as the claim requests.
func HasGrown(claim *corev1.PersistentVolumeClaim) bool {
	has, wanted := claim.Status.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return has.Cmp(wanted) >= 0
}

// NeedsRestart reports whether a claim waits for a restart of its Pod: the volume has grown, but not the file system on
// the volume. If kubelet and driver can grow the file system while the Pod runs, the condition disappears by itself.
func NeedsRestart(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue
	})
}
