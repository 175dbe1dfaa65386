package cloneset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// deleteClaimsOf deletes the claims of a Pod that the controller itself has deleted, reuse or not (C-31). The claim's own
// protection keeps it until the Pod is gone.
func (r *Reconciler) deleteClaimsOf(ctx context.Context, v *view, pod *corev1.Pod) error {
	id := pod.Labels[apps.LabelInstanceID]
	if id == "" {
		return nil
	}
	for _, claim := range v.claims {
		if claim.Labels[apps.LabelInstanceID] != id || claim.DeletionTimestamp != nil {
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

// tendClaims handles claims whose Pod was lost, when they are not to be reused (C-36): a claim whose Pod still exists but
// is inactive goes to that Pod, which takes it along; a claim without any Pod is deleted.
func (r *Reconciler) tendClaims(ctx context.Context, v *view) (acted bool, err error) {
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
	for _, claim := range v.claims {
		id := claim.Labels[apps.LabelInstanceID]
		if id == "" || active[id] || claim.DeletionTimestamp != nil {
			continue
		}
		if pod := inactive[id]; pod != nil {
			err = r.handOver(ctx, v, claim, pod)
		} else {
			err = r.deleteClaim(ctx, v, claim)
		}
		acted = true
		if err != nil {
			return acted, err
		}
	}
	return acted, nil
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
