package statefulset

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
)

// lookAgain is when to look again at claims, whose events wake nobody unless a StatefulSet has had them grow.
const lookAgain = time.Second

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

// grow has one claim ask for the size of its template.
func (r *Reconciler) grow(ctx context.Context, v *view, claim pvc.Small) error {
	path := "spec.volumeClaimTemplates[" + claim.Template.Name + "]"
	err := claimwriter.Grow(ctx, v.Client, r.Cache.APIReader(), claim, path, map[string]string{apps.AnnotationOwnedByStatefulSet: v.Owner.Name})
	if err != nil {
		r.Events.Event(v.Owner, corev1.EventTypeWarning, apps.EventFailedResize, err.Error())
		return err
	}
	r.Events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulResize,
		"PersistentVolumeClaim %s grows to %s", claim.Name, claim.Template.Spec.Resources.Requests.Storage())
	return nil
}

// claimStatus says how far the claims of the Pods that exist follow the templates.
func (o *observation) claimStatus() (out []v1beta1.VolumeClaimStatus) {
	pods := func(yield func(string) bool) {
		for i := range o.pods.Active {
			if !yield(o.pods.Active[i].Name) {
				return
			}
		}
	}
	for i := range o.claims.Templates {
		template := &o.claims.Templates[i]
		fit, grown := o.claims.Count(template, pods)
		out = append(out, v1beta1.VolumeClaimStatus{VolumeClaimName: template.Name, CompatibleReplicas: fit, CompatibleReadyReplicas: grown})
	}
	return out
}
