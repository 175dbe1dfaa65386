package executor

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
)

// TendClaims transfers claims to other owners and deletes claims, as decided by package pvc. TendClaims and all methods
// that change claims refuse claims that the owner does not own, and Pods of another namespace (NotOwned).
func (t *Turn[O]) TendClaims(ctx context.Context, handOver []pvc.Transfer, remove []*corev1.PersistentVolumeClaim) error {
	if len(handOver)+len(remove) == 0 {
		return nil
	}
	return t.Pass.Once(ctx, fanout.Task{Name: "tend claims"}, func() (changed bool, err error) {
		var errs []error
		for _, transfer := range handOver {
			errs = append(errs, t.handOver(ctx, transfer))
			changed = changed || errs[len(errs)-1] == nil
		}
		err = t.DeleteClaims(ctx, remove)
		return changed || len(remove) > 0 && err == nil, errors.Join(append(errs, err)...)
	})
}

func (t *Turn[O]) handOver(ctx context.Context, transfer pvc.Transfer) error {
	if err := t.foreignClaim(transfer.Claim); err != nil {
		return err
	}
	if transfer.Pod.Namespace != transfer.Claim.Namespace {
		return t.notOwned("Pod", transfer.Pod, "it gets a claim from another namespace, that of")
	}
	return claimwriter.HandOver(ctx, t.Client, t.Owner.GetUID(), transfer)
}

// CreateClaims creates missing claims without which existing Pods cannot start; for an owner being deleted,
// CreateClaims creates none (OwnerDeleting).
func (t *Turn[O]) CreateClaims(ctx context.Context, missing []*corev1.PersistentVolumeClaim) error {
	if err := t.deleting(); err != nil && len(missing) > 0 {
		return err
	}
	for _, claim := range missing {
		if err := t.foreignClaim(claim); err != nil {
			return err
		}
	}
	return t.Pass.Once(ctx, fanout.Task{Name: "create claims of Pods"}, func() (bool, error) {
		return len(missing) > 0, claimwriter.Create(ctx, t.Client, missing)
	})
}

// DeleteClaims deletes claims, and continues with other claims after a failure (ClaimDeleteFailed).
func (t *Turn[O]) DeleteClaims(ctx context.Context, claims []*corev1.PersistentVolumeClaim) error {
	var errs []error
	for _, claim := range claims {
		err := t.foreignClaim(claim)
		if err == nil {
			err = claimwriter.Delete(ctx, t.Client, claim)
		}
		if err != nil {
			t.executor.options.Observe(t.Owner, Event{Type: ClaimDeleteFailed, Claim: claim, Err: err})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// GrowClaims raises the storage requests of claims to the sizes in their templates, and sets annotations on the claims.
// path returns the field path of a claim's size in the owner; nil means spec.volumeClaimTemplates. After a failure
// GrowClaims continues with other claims.
func (t *Turn[O]) GrowClaims(ctx context.Context, claims []pvc.Small, path func(pvc.Small) string, annotations map[string]string) error {
	if path == nil {
		path = func(claim pvc.Small) string { return "spec.volumeClaimTemplates[" + claim.Template.Name + "]" }
	}
	var errs []error
	own := slices.DeleteFunc(slices.Clone(claims), func(claim pvc.Small) bool {
		err := t.foreignClaim(claim.PersistentVolumeClaim)
		errs = append(errs, err)
		return err != nil
	})
	err := claimwriter.GrowAll(ctx, t.Pass, own, claimwriter.Growth{
		Client: t.Client, Classes: t.executor.cache.APIReader(), Annotations: annotations, Path: path,
		Told: func(claim pvc.Small, err error) {
			e := Event{Type: ClaimGrown, Claim: grown(claim), Err: err}
			if err != nil {
				e.Type = ClaimGrowthFailed
			}
			t.executor.options.Observe(t.Owner, e)
		},
	})
	return errors.Join(append(errs, err)...)
}

// grown returns a claim with the size of its template.
func grown(claim pvc.Small) *corev1.PersistentVolumeClaim {
	out := claim.PersistentVolumeClaim.DeepCopy()
	if out.Spec.Resources.Requests == nil {
		out.Spec.Resources.Requests = corev1.ResourceList{}
	}
	out.Spec.Resources.Requests[corev1.ResourceStorage] = *claim.Template.Spec.Resources.Requests.Storage()
	return out
}
