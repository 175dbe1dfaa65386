package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// usersIndex is the name of the index of Pods by the claims that they use.
const usersIndex = "workloadkit.io/claim"

// claimsUsedBy returns the keys of the index: every claim that a Pod names, whoever owns the Pod.
func claimsUsedBy(pod *corev1.Pod) (keys []string) {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			keys = append(keys, pod.Namespace+"/"+source.ClaimName)
		}
	}
	return keys
}

// isUsed reports whether a Pod other than the given one exists that uses the claim.
func (r *Reconciler) isUsed(claim *corev1.PersistentVolumeClaim, except types.UID) bool {
	return slices.ContainsFunc(r.pods.By(usersIndex, claim.Namespace+"/"+claim.Name), func(pod *corev1.Pod) bool { return pod.UID != except })
}

// unborn remembers, by CloneSet, the instance ids whose Pods could not be created, although their claims may have been. They
// are tried first the next time, so that a quota does not have claims made and deleted for ever. It is memory of one process:
// after a restart such claims are those of lost Pods. The zero value is ready for use, by several goroutines.
type unborn struct {
	mu  sync.Mutex
	ids map[types.UID]sets.Set[string]
}

func (u *unborn) add(owner types.UID, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = map[types.UID]sets.Set[string]{}
	}
	if u.ids[owner] == nil {
		u.ids[owner] = sets.New[string]()
	}
	u.ids[owner].Insert(id)
}

func (u *unborn) remove(owner types.UID, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids[owner].Delete(id); len(u.ids[owner]) == 0 {
		delete(u.ids, owner)
	}
}

// settle drops the ids of an owner that have a Pod after all: the answer to its creation was lost.
func (u *unborn) settle(owner types.UID, born func(id string) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.ids[owner] {
		if born(id) {
			u.ids[owner].Delete(id)
		}
	}
	if len(u.ids[owner]) == 0 {
		delete(u.ids, owner)
	}
}

func (u *unborn) has(owner types.UID, id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ids[owner].Has(id)
}

// forget drops what is known about an owner. It reports whether there was anything.
func (u *unborn) forget(owner types.UID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.ids[owner]
	delete(u.ids, owner)
	return ok
}

// deleteClaimsOf deletes the claims of a Pod that the controller itself has deleted, reuse or not, but for those that
// somebody else's Pod uses as well. The claim's own protection keeps it until the Pod is gone.
func (r *Reconciler) deleteClaimsOf(ctx context.Context, v *view, pod *corev1.Pod) error {
	id := pod.Labels[apps.LabelInstanceID]
	if id == "" {
		return nil
	}
	for _, claim := range v.claims {
		if claim.Labels[apps.LabelInstanceID] != id || claim.DeletionTimestamp != nil || r.isUsed(claim, pod.UID) {
			continue
		}
		if err := r.deleteClaim(ctx, v, claim); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) deleteClaim(ctx context.Context, v *view, claim *corev1.PersistentVolumeClaim) error {
	err := r.client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	if client.IgnoreNotFound(err) != nil {
		r.events.Eventf(v.cs, corev1.EventTypeWarning, apps.EventFailedDelete, "failed to delete PersistentVolumeClaim %s: %v", claim.Name, err)
		return fmt.Errorf("deleting PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	return nil
}

// tendClaims handles claims whose Pod was lost, when they are not to be reused: a claim whose Pod still exists but
// is inactive goes to that Pod, which takes it along; a claim that no Pod uses is deleted.
func (r *Reconciler) tendClaims(ctx context.Context, v *view) (acted bool, err error) {
	r.unborn.settle(v.cs.UID, func(id string) bool { _, exists := r.pods.Get(v.cs.Namespace, podName(v.cs, id)); return exists })
	if acted, err = r.claimsOfReleased(ctx, v); acted || worthTrying(err) {
		return acted, err
	}
	lostErr := err
	acted, err = r.claimsOfLost(ctx, v)
	return acted, errors.Join(lostErr, err)
}

// claimsOfReleased hands over what a Pod uses that was released before its claims could follow it.
func (r *Reconciler) claimsOfReleased(ctx context.Context, v *view) (acted bool, err error) {
	var released []*corev1.Pod
	for _, claim := range v.claims {
		pod, ok := r.pods.Get(v.cs.Namespace, podName(v.cs, claim.Labels[apps.LabelInstanceID]))
		if ok && !metav1.IsControlledBy(pod, v.cs) && !slices.Contains(released, pod) {
			released = append(released, pod)
		}
	}
	if len(released) == 0 {
		return false, nil
	}
	err = r.attempt(ctx, v, tryClaims, func() (err error) {
		acted, err = r.handOverAll(ctx, v, released)
		return err
	})
	return acted, err
}

// claimsOfLost is tendClaims for the claims of Pods that were lost.
func (r *Reconciler) claimsOfLost(ctx context.Context, v *view) (acted bool, err error) {
	if v.cs.Spec.ScaleStrategy.EnablePVCReuse || len(v.claims) == 0 {
		return false, nil
	}
	active := map[string]bool{}
	for i := range v.members {
		active[v.members[i].pod.Labels[apps.LabelInstanceID]] = true
	}
	inactive := map[string]*corev1.Pod{}
	for _, pod := range v.inactive {
		inactive[pod.Labels[apps.LabelInstanceID]] = pod
	}
	err = r.attempt(ctx, v, tryClaims, func() error {
		var errs []error
		for _, claim := range v.claims {
			id := claim.Labels[apps.LabelInstanceID]
			if id == "" || active[id] || claim.DeletionTimestamp != nil || r.unborn.has(v.cs.UID, id) {
				continue
			}
			var err error
			switch pod := inactive[id]; {
			case r.isUsed(claim, uidOf(pod)):
				continue
			case pod != nil:
				err = r.handOver(ctx, v, claim, pod)
			default:
				err = r.deleteClaim(ctx, v, claim)
			}
			acted = acted || err == nil
			if errs = append(errs, err); len(errs) > podsPerPass {
				break
			}
		}
		return errors.Join(errs...)
	})
	return acted, err
}

// uidOf returns a Pod's UID, none for no Pod.
func uidOf(pod *corev1.Pod) types.UID {
	if pod == nil {
		return ""
	}
	return pod.UID
}

// handOverAll hands claims over to the Pods of their instances that use them and that no other Pod shares them with: a claim goes
// with its owner. It reports whether there were any.
func (r *Reconciler) handOverAll(ctx context.Context, v *view, pods []*corev1.Pod) (acted bool, err error) {
	var errs []error
	for _, pod := range pods {
		used := claimsUsedBy(pod)
		v.claims = slices.DeleteFunc(v.claims, func(claim *corev1.PersistentVolumeClaim) bool {
			if claim.DeletionTimestamp != nil || !slices.Contains(used, claim.Namespace+"/"+claim.Name) ||
				podName(v.cs, claim.Labels[apps.LabelInstanceID]) != pod.Name || r.isUsed(claim, pod.UID) {
				return false
			}
			err := r.handOver(ctx, v, claim, pod)
			errs = append(errs, err)
			acted = acted || err == nil
			return err == nil
		})
	}
	return acted, errors.Join(errs...)
}

// handOver replaces the claim's owner by its Pod.
func (r *Reconciler) handOver(ctx context.Context, v *view, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) error {
	owners := make([]metav1.OwnerReference, 0, len(claim.OwnerReferences))
	for _, ref := range claim.OwnerReferences {
		if ref.UID != v.cs.UID {
			owners = append(owners, ref)
		}
	}
	owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion, "ownerReferences": owners,
	}})
	if err != nil {
		return fmt.Errorf("encoding the owners of PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	changed := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	if err := r.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("handing PersistentVolumeClaim %s over to Pod %s: %w", claim.Name, pod.Name, err)
	}
	return nil
}
