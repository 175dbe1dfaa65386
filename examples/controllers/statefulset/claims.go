package statefulset

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
)

// lookAgain and claimRetry are when to look again at claims, whose events wake nobody unless a StatefulSet has had them grow: at those that
// it has written to, and at those that are in the way.
const (
	lookAgain  = 100 * time.Millisecond
	claimRetry = 5 * time.Second
)

// watchClaims wakes StatefulSets by the claims that they have grown.
func watchClaims(b *builder.Builder) *builder.Builder {
	return b.Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, claim client.Object) []reconcile.Request {
		name := claim.GetAnnotations()[apps.AnnotationOwnedByStatefulSet]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: claim.GetNamespace(), Name: name}}}
	}))
}

// createClaims makes the claims that a new Pod lacks, and gives the others the owners that they should have.
func (r *Reconciler) createClaims(ctx context.Context, v *view, o *observation, pod *corev1.Pod) error {
	if err := claimwriter.Create(ctx, v.Client, o.claims.Missing(pod.Name)); err != nil {
		return err
	}
	for _, claim := range o.claims.Owned(pod.Name, nil, true) {
		if err := claimwriter.SetOwners(ctx, v.Client, claim); err != nil {
			return err
		}
	}
	return nil
}

// grow has one claim ask for the size of its template.
func (r *Reconciler) grow(ctx context.Context, v *view, claim pvc.Small) error {
	err := r.mayGrow(ctx, claim)
	if err == nil {
		err = claimwriter.Grow(ctx, v.Client, claim, map[string]string{apps.AnnotationOwnedByStatefulSet: v.Owner.Name})
	}
	if err != nil {
		r.Events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventFailedResize, "PersistentVolumeClaim %s does not grow: %v", claim.Name, err)
		return err
	}
	r.Events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulResize,
		"PersistentVolumeClaim %s grows to %s", claim.Name, claim.Template.Spec.Resources.Requests.Storage())
	return nil
}

// mayGrow asks the claim's StorageClass.
func (r *Reconciler) mayGrow(ctx context.Context, claim pvc.Small) error {
	name := claim.Spec.StorageClassName
	if name == nil || *name == "" {
		return nil
	}
	class := &storagev1.StorageClass{}
	if err := r.Cache.APIReader().Get(ctx, client.ObjectKey{Name: *name}, class); apierrors.IsNotFound(err) {
		class = nil
	} else if err != nil {
		return err
	}
	return reason.Final(pvc.MayGrow("spec.volumeClaimTemplates["+claim.Template.Name+"]", *name, class))
}

// claimStatus says how far the claims of the Pods that exist follow the templates.
func (o *observation) claimStatus() []v1beta1.VolumeClaimStatus {
	templates := o.set.Spec.VolumeClaimTemplates
	out := make([]v1beta1.VolumeClaimStatus, len(templates))
	for i := range templates {
		out[i].VolumeClaimName = templates[i].Name
		for j := range o.pods.Active {
			claim, ok := o.claims.Claim(pvc.Name(templates[i].Name, o.pods.Active[j].Name))
			if !ok || pvc.IsSmaller(claim, &templates[i]) || len(pvc.Differences(claim, &templates[i])) > 0 {
				continue
			}
			if out[i].CompatibleReplicas++; pvc.HasGrown(claim) {
				out[i].CompatibleReadyReplicas++
			}
		}
	}
	return out
}
