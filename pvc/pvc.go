// Package pvc answers "which claims does a Pod need, which of them are missing, and which may go?".
//
// A Pod made from an owner's claim templates uses a PersistentVolumeClaim per template. The claim's name consists of
// the names of template and Pod: [Name]. [Mount] puts the claims into a new Pod, and [Missing] returns the claims to
// create before the Pod.
//
// The owner chooses the fate of a claim without Pod. For Pods never made again under the same name, [Known.Release] and
// [Known.Lost] decide: a claim follows the Pod still using the claim, and is deleted if no Pod does. A claim used by
// another Pod is left alone. For Pods made again under the same name, like the Pods of a StatefulSet, a [Retention]
// says which owner references a claim has, and the garbage collector does the rest. [IsStale] recognises a claim going
// with an earlier Pod.
//
// A claim can grow after its template, if the StorageClass allows growth ([IsSmaller], [Differences], [MayGrow]). Leave
// the Pod alone until the volume has followed ([HasGrown], [NeedsRestart]).
//
// Claim templates change while Pods go on running: [MissingOf] and [Lacking] compare an existing Pod with claim
// templates, and [Former] finds the claim templates of an earlier Pod template. Package revision keeps claim templates
// with revisions.
//
// Package pvc/claimwriter writes the decisions.
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

// Mount has a new, already named Pod use the claims of the templates. Mount replaces a volume with the name of a
// template.
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

// UsedBy returns the names of a Pod's claims.
func UsedBy(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			names = append(names, source.ClaimName)
		}
	}
	return names
}

// Transfer hands a claim over to a Pod. The claim goes together with the Pod.
type Transfer struct {
	Claim *corev1.PersistentVolumeClaim
	Pod   *corev1.Pod
}

// Known is the knowledge about the Pods of an owner's claims. All fields are required.
type Known struct {
	// Owner is the UID of the owner of claims and Pods.
	Owner types.UID
	// PodOf returns the name of the Pod for which a claim was made, empty for a claim not made by the owner.
	PodOf func(*corev1.PersistentVolumeClaim) string
	// Pod returns the Pod of a name, regardless of its owner.
	Pod func(name string) (*corev1.Pod, bool)
	// Users returns the Pods that use a claim, regardless of their owners.
	Users func(*corev1.PersistentVolumeClaim) []*corev1.Pod
}

// Release returns the claims that follow a Pod released by their owner: claims made for the Pod and used by the Pod.
// Somebody who has relabelled the Pod, to look into a fault, needs the claims.
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

// SetOf returns the names of claims.
func SetOf(claims []*corev1.PersistentVolumeClaim) sets.Set[string] {
	out := make(sets.Set[string], len(claims))
	for _, claim := range claims {
		out.Insert(claim.Name)
	}
	return out
}

// Lost decides about the claims of Pods no longer active. The claims of a still existing Pod go to the Pod, and unused
// claims are to be deleted. active and inactive are the owner's Pods. keep reports Pods still to be made.
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

// Of returns the claims made for a Pod that go with the Pod when its owner deletes the Pod. The claim's own protection
// keeps the claim until the Pod is gone.
func (k Known) Of(claims []*corev1.PersistentVolumeClaim, pod *corev1.Pod) (out []*corev1.PersistentVolumeClaim) {
	for _, claim := range claims {
		if k.PodOf(claim) == pod.Name && claim.DeletionTimestamp == nil && !k.isUsed(claim, pod) {
			out = append(out, claim)
		}
	}
	return out
}

// Reusable returns, sorted, the names of lost Pods whose claims another Pod of the name may have: all claims exist, and
// none is on its way out. wanted reports Pods that may be made again. A claim with a label changed by somebody is not
// reusable.
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

// isUsed reports whether a Pod other than except uses the claim.
func (k Known) isUsed(claim *corev1.PersistentVolumeClaim, except *corev1.Pod) bool {
	return slices.ContainsFunc(k.Users(claim), func(pod *corev1.Pod) bool { return except == nil || pod.UID != except.UID })
}
