package statefulset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// These are the storage classes: claims of the class fast may grow, and claims of the class slow may not.
const (
	fast = "fast"
	slow = "slow"
)

func gigabytes(n int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", n))}
}

func gigabytesOf(list corev1.ResourceList) int { return int(list.Storage().Value() >> 30) }

// sizeOf returns the wanted size of claims, in gigabytes.
func sizeOf(set *v1beta1.StatefulSet) int {
	if len(set.Spec.VolumeClaimTemplates) == 0 {
		return 0
	}
	return gigabytesOf(set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests)
}

// storage gives the StatefulSet claim templates, with or without a class. Some claims exist already, with another
// class than the template's class.
func (w *story) storage(set *v1beta1.StatefulSet) {
	classes := []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: fast}, AllowVolumeExpansion: ptr.To(true)}, {ObjectMeta: metav1.ObjectMeta{Name: slow}}}
	for i := range classes {
		w.must(w.User.Create(context.Background(), &classes[i]))
	}
	template := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	template.Spec.Resources.Requests = gigabytes(1 + w.Rand().IntN(2))
	template.Spec.StorageClassName = []*string{ptr.To(fast), ptr.To(fast), ptr.To(slow), nil, nil}[w.Rand().IntN(5)]
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{template}
	if w.follow {
		set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.ClaimsOnPodRollingUpdate
	}
	if template.Spec.StorageClassName == nil {
		claim := template.DeepCopy()
		claim.Namespace, claim.Name, claim.Spec.StorageClassName = namespace, fmt.Sprintf("data-web-%d", w.Rand().IntN(4)), ptr.To(slow)
		w.must(w.User.Create(context.Background(), claim))
	}
}

func (w *story) claimsOf() (out []*corev1.PersistentVolumeClaim) {
	for _, claim := range faultapi.All[*corev1.PersistentVolumeClaim](w.Server) {
		if claim.DeletionTimestamp == nil {
			out = append(out, claim.DeepCopy())
		}
	}
	return out
}

// driver acts as a volume driver for a single claim: driver creates the volume, or enlarges the volume to the size
// that the claim requests. With luck 0 the driver succeeds. With luck 1 nothing happens, and with luck 2 only the
// file system must still grow. The result is true if a claim was changed.
func (w *story) driver(luck int) bool {
	for _, claim := range w.claimsOf() {
		switch {
		case claim.Status.Phase != corev1.ClaimBound:
			w.has(claim, claim.Spec.Resources.Requests)
		case gigabytesOf(claim.Status.Capacity) >= gigabytesOf(claim.Spec.Resources.Requests):
			continue
		case luck == 1:
			w.Logf("driver: claim %s does not grow yet", claim.Name)
			return false
		case len(claim.Status.Conditions) > 0 && w.offline:
			continue // the function restart handles such a claim
		case len(claim.Status.Conditions) == 0 && (luck == 2 || w.offline):
			claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
				Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue, Message: w.uidOf(claim),
			}}
			w.has(claim, claim.Status.Capacity)
		default:
			w.has(claim, claim.Spec.Resources.Requests)
		}
		return true
	}
	return w.offline && w.mounted()
}

func (w *story) has(claim *corev1.PersistentVolumeClaim, capacity corev1.ResourceList) {
	if gigabytesOf(capacity) >= gigabytesOf(claim.Spec.Resources.Requests) {
		claim.Status.Conditions = nil
	}
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, capacity
	w.Logf("driver: claim %s has %d Gi of %d, conditions %d", claim.Name, gigabytesOf(capacity), gigabytesOf(claim.Spec.Resources.Requests), len(claim.Status.Conditions))
	w.must(w.User.Status().Update(context.Background(), claim))
}

// uidOf returns the UID of the Pod that uses the claim, or "" if no Pod uses the claim.
func (w *story) uidOf(claim *corev1.PersistentVolumeClaim) string {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if claimOf(pod).Name == claim.Name {
			return string(pod.UID)
		}
	}
	return ""
}

// mounted grows the file systems of volumes that a new Pod has mounted.
func (w *story) mounted() bool {
	for _, claim := range w.claimsOf() {
		if len(claim.Status.Conditions) > 0 && claim.Status.Conditions[0].Message != w.uidOf(claim) {
			w.has(claim, claim.Spec.Resources.Requests)
			return true
		}
	}
	return false
}

// restart deletes, as a user, a Pod whose file system grows only when a new Pod mounts the volume.
func (w *story) restart() bool {
	for _, claim := range w.claimsOf() {
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			if len(claim.Status.Conditions) > 0 && claimOf(pod).Name == claim.Name && podstate.IsActive(pod) && w.isOurs(pod) {
				w.Logf("user: Pod %s is started again for its volume", pod.Name)
				w.must(w.User.Delete(context.Background(), pod))
				return true
			}
		}
	}
	return false
}

// enlarge enlarges a claim as a user.
func (w *story) enlarge() {
	claims := slices.DeleteFunc(w.claimsOf(), func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Phase != corev1.ClaimBound || ptr.Deref(claim.Spec.StorageClassName, fast) == slow
	})
	if len(claims) == 0 {
		return
	}
	claim := claims[w.Rand().IntN(len(claims))]
	claim.Spec.Resources.Requests = gigabytes(gigabytesOf(claim.Spec.Resources.Requests) + 1)
	w.Logf("user: claim %s asks for %d Gi", claim.Name, gigabytesOf(claim.Spec.Resources.Requests))
	w.must(w.User.Update(context.Background(), claim))
}

// drop deletes a claim as a user. A finalizer keeps the claim as long as its Pod exists.
func (w *story) drop() {
	if claims := w.claimsOf(); len(claims) > 0 {
		claim := claims[w.Rand().IntN(len(claims))]
		w.Logf("user: claim %s is deleted", claim.Name)
		w.must(w.User.Delete(context.Background(), claim))
		w.dropped[claim.Name] = true
	}
}

// deniesGrowth refuses to enlarge claims of a class without volume expansion, as the API server does.
func (w *story) deniesGrowth(call faultapi.Call, claim *corev1.PersistentVolumeClaim) error {
	after := &corev1.PersistentVolumeClaim{}
	w.must(json.Unmarshal(call.Body, after))
	if ptr.Deref(claim.Spec.StorageClassName, fast) != slow || after.Spec.Resources.Requests == nil {
		return nil
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("the storageclass that provisions the pvc must support resize"))
}

func (w *story) lookAtClaims(t *chaos.Task, v *sight) {
	v.small, v.stuck, v.growing, v.dying = map[int]bool{}, map[int]bool{}, map[int]bool{}, map[int]bool{}
	if !w.claims {
		return
	}
	var claims corev1.PersistentVolumeClaimList
	w.must(t.Process.Cache.List(context.Background(), &claims))
	for i := range claims.Items {
		claim := &claims.Items[i]
		o, asks := ordinalOf(claim.Name[len("data-"):]), gigabytesOf(claim.Spec.Resources.Requests)
		if v.dying[o] = claim.DeletionTimestamp != nil; v.dying[o] || !w.follow {
			continue
		}
		v.small[o] = asks < sizeOf(v.owner)
		v.stuck[o] = v.small[o] && ptr.Deref(claim.Spec.StorageClassName, "") == slow
		if gigabytesOf(claim.Status.Capacity) < asks {
			v.growing[o] = len(claim.Status.Conditions) > 0
		}
	}
}

// judgeGrowth checks that no claim becomes smaller. A claim may grow to the size of the template only when its Pod is
// next in the update order, and when maxUnavailable allows the update.
func (w *story) judgeGrowth(v *sight, o int, before, after *corev1.PersistentVolumeClaim) {
	asked, asks := gigabytesOf(before.Spec.Resources.Requests), gigabytesOf(after.Spec.Resources.Requests)
	switch {
	case asks == asked:
		return
	case asks < asked:
		w.Failf("growth", "claim %s shrinks from %d to %d Gi", after.Name, asked, asks)
	case v == nil || v.owner == nil || v.wanted == nil || !w.follow || asks != sizeOf(v.owner):
		w.Failf("growth", "claim %s is made to grow from %d to %d Gi", after.Name, asked, asks)
	}
	delete(w.attempted, after.UID)
	pod, rank := v.pods[o], slices.Index(v.wanted, o)
	if pod == nil || rank < v.partition() || v.owner.Spec.UpdateStrategy.RollingUpdate.Paused {
		w.Failf("growth", "claim %s grows before it is its turn: Pod %v of rank %d, partition %d, paused %t",
			after.Name, pod != nil, rank, v.partition(), v.owner.Spec.UpdateStrategy.RollingUpdate.Paused)
	}
	if v.serves(o) && !v.taken[o] {
		v.taken[o] = true
		w.judgeTaking(v, o, pod)
	}
}

// judgeUngrown checks that the controller updates a Pod only after its claim requests the size of the template and
// the volume has grown. The exception is a volume whose file system grows only when a new Pod mounts the volume.
func (w *story) judgeUngrown(v *sight, o int, pod *corev1.Pod) {
	restart, grows := v.growing[o]
	if pod.Labels[apps.LabelSpecifiedDelete] != "" || !slices.Contains(v.wanted, o) || !podstate.IsActive(pod) {
		return
	}
	if v.small[o] || grows && !restart {
		w.Failf("growth", "Pod %s is updated; its claim is too small: %t, its volume grows: %t", pod.Name, v.small[o], grows)
	}
}

// stuckClaims returns the ordinals of Pods that must be updated, but whose claims are too small and cannot grow.
func (w *story) stuckClaims(set *v1beta1.StatefulSet) map[int]bool {
	out, wanted := map[int]bool{}, ordinalsOf(set)
	for _, claim := range w.claimsOf() {
		o := ordinalOf(claim.Name[len("data-"):])
		rank := slices.Index(wanted, o)
		small := gigabytesOf(claim.Spec.Resources.Requests) < sizeOf(set) && ptr.Deref(claim.Spec.StorageClassName, "") == slow
		if w.follow && small && rank >= int(ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate.Partition, 0)) {
			out[o] = true
		}
	}
	return out
}
