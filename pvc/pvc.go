// Package pvc answers "which claims does a Pod need, which of them are missing, and which may be deleted?".
//
// A Pod made from an owner's claim templates uses a PersistentVolumeClaim per template. The claim's name consists of
// the names of template and Pod: see [Name]. [Mount] puts the claims into a new Pod, and [Missing] returns the claims
// that must be created before the Pod.
//
// The owner decides what happens to a claim whose Pod no longer exists. For Pods that are not recreated with the same
// name, [Known.Release] and [Known.Lost] decide: a claim is deleted together with the Pod that still uses the claim, or
// at once if no Pod does. A claim that a Pod of another owner uses is not changed. For Pods that are recreated with the
// same name, like the Pods of a StatefulSet, a [Retention] says which owner references a claim needs, and the garbage
// collector deletes the claim. [IsStale] recognises a claim that will be deleted with an earlier Pod.
//
// If a template's size is raised, its claims can be resized, provided that the StorageClass allows expansion
// ([IsSmaller], [Differences], [MayGrow]). Do not restart the Pod until the volume has been resized ([HasGrown],
// [NeedsRestart]).
//
// Claim templates may change while Pods run: [MissingOf] and [Lacking] compare an existing Pod with claim templates,
// and [Former] finds the claim templates of an earlier Pod template. Package revision records claim templates with
// revisions.
//
// Package pvc/claimwriter carries out the decisions.
package pvc

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Name returns the name of the claim of a template for a Pod, as StatefulSets name claims.
func Name(template, pod string) string { return template + "-" + pod }

// Mount adds the claims of the templates to the volumes of a new Pod, which must have its name. Mount replaces a volume
// with the name of a template.
func Mount(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim) {
	for i := range templates {
		volume := corev1.Volume{Name: templates[i].Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: Name(templates[i].Name, pod.Name)},
		}}
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name })
		if at < 0 {
			pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
			continue
		}
		pod.Spec.Volumes[at] = volume
	}
}

// Missing returns the claims of a Pod that do not exist yet. labels are added to the labels of the templates, and
// owner, unless nil, is the claims' owner. Missing does not modify the templates.
func Missing(
	templates []corev1.PersistentVolumeClaim, namespace, pod string, labels map[string]string, owner *metav1.OwnerReference, exists func(name string) bool,
) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for i := range templates {
		name := Name(templates[i].Name, pod)
		if exists(name) {
			continue
		}
		claim := templates[i].DeepCopy()
		claim.Namespace, claim.Name, claim.Status = namespace, name, corev1.PersistentVolumeClaimStatus{}
		if claim.Labels == nil {
			claim.Labels = map[string]string{}
		}
		maps.Copy(claim.Labels, labels)
		if claim.OwnerReferences = nil; owner != nil {
			claim.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		claims = append(claims, claim)
	}
	return claims
}

// UsedBy returns the names of the claims that a Pod uses.
func UsedBy(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			names = append(names, source.ClaimName)
		}
	}
	return names
}

// Transfer names a claim and the Pod that becomes the owner of the claim. The claim is then deleted together with the
// Pod.
type Transfer struct {
	Claim *corev1.PersistentVolumeClaim
	Pod   *corev1.Pod
}

// Known gives access to the caller's knowledge about the Pods that use an owner's claims. All fields are required.
type Known struct {
	// Owner is the UID of the owner of claims and Pods.
	Owner types.UID
	// PodOf returns the name of the Pod for which a claim was made, empty if the owner did not make the claim.
	PodOf func(*corev1.PersistentVolumeClaim) string
	// Pod returns the Pod with a name, whoever owns the Pod.
	Pod func(name string) (*corev1.Pod, bool)
	// Users returns the Pods that use a claim, whoever owns the Pods.
	Users func(*corev1.PersistentVolumeClaim) []*corev1.Pod
}

// Release returns the claims to hand to a Pod that its owner has released: claims that were made for the Pod and that
// the Pod uses. A user may have relabelled the Pod to investigate a fault, and then needs these claims.
func (k Known) Release(claims []*corev1.PersistentVolumeClaim) (out []Transfer) {
	for _, claim := range claims {
		pod, ok := k.Pod(k.PodOf(claim))
		if ok && !k.isOwned(pod) && claim.DeletionTimestamp == nil && slices.Contains(UsedBy(pod), claim.Name) && !k.isUsed(claim, pod) {
			out = append(out, Transfer{claim, pod})
		}
	}
	return out
}

func (k Known) isOwned(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ref.UID == k.Owner
}

// SetOf returns the set of the claims' names.
func SetOf(claims []*corev1.PersistentVolumeClaim) sets.Set[string] {
	out := make(sets.Set[string], len(claims))
	for _, claim := range claims {
		out.Insert(claim.Name)
	}
	return out
}

// Lost decides what happens to the claims of Pods that are no longer active. If such a Pod still exists, the Pod
// becomes the owner of its claims (handOver). Claims that no Pod uses must be deleted (remove). active and inactive
// are the owner's Pods. keep reports whether a Pod will still be created and needs its claims.
func (k Known) Lost(claims []*corev1.PersistentVolumeClaim, active func(pod string) bool, inactive []*corev1.Pod, keep func(pod string) bool) (handOver []Transfer, remove []*corev1.PersistentVolumeClaim) {
	byName := make(map[string]*corev1.Pod, len(inactive))
	for _, pod := range inactive {
		byName[pod.Name] = pod
	}
	for _, claim := range claims {
		name := k.PodOf(claim)
		if name == "" || claim.DeletionTimestamp != nil || active(name) || keep(name) {
			continue
		}
		pod := byName[name]
		switch {
		case k.isUsed(claim, pod):
		case pod != nil:
			handOver = append(handOver, Transfer{claim, pod})
		default:
			remove = append(remove, claim)
		}
	}
	return handOver, remove
}

// Of returns the claims made for a Pod that the owner must delete together with the Pod. Kubernetes keeps each claim
// until the Pod is removed (finalizer kubernetes.io/pvc-protection).
func (k Known) Of(claims []*corev1.PersistentVolumeClaim, pod *corev1.Pod) (out []*corev1.PersistentVolumeClaim) {
	for _, claim := range claims {
		if k.PodOf(claim) == pod.Name && claim.DeletionTimestamp == nil && !k.isUsed(claim, pod) {
			out = append(out, claim)
		}
	}
	return out
}

// Reusable returns the sorted names of former Pods whose claims a new Pod of the same name can use: all claims exist,
// and none is being deleted. wanted reports whether a Pod may be created again. If somebody has changed a label of a
// claim, the claim cannot be used again.
func (k Known) Reusable(claims []*corev1.PersistentVolumeClaim, wanted func(pod string) bool) []string {
	usable := map[string]bool{}
	for _, claim := range claims {
		pod := k.PodOf(claim)
		if pod == "" || !strings.HasSuffix(claim.Name, "-"+pod) || !wanted(pod) {
			continue
		}
		known, ok := usable[pod]
		usable[pod] = claim.DeletionTimestamp == nil && (known || !ok)
	}
	maps.DeleteFunc(usable, func(_ string, ok bool) bool { return !ok })
	return slices.Sorted(maps.Keys(usable))
}

// isUsed reports whether the claim is used by any Pod other than the Pod except.
func (k Known) isUsed(claim *corev1.PersistentVolumeClaim, except *corev1.Pod) bool {
	return slices.ContainsFunc(k.Users(claim), func(pod *corev1.Pod) bool { return except == nil || pod.UID != except.UID })
}
