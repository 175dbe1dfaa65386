package statefulset

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
)

// watchClaims wakes the StatefulSets whose Pods may use a claim. The claim's name ends in the Pod's name. The start of
// the Pod's name is unknown, so watchClaims tries every hyphen.
func watchClaims(b *builder.Builder) *builder.Builder {
	return b.Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, claim client.Object) (out []reconcile.Request) {
		name, _, found := ordinals.ParseName(claim.GetName())
		for found {
			if _, name, found = strings.Cut(name, "-"); found {
				out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: claim.GetNamespace(), Name: name}})
			}
		}
		return out
	}))
}

// lacks returns the claims missing in a Pod since its creation. With InPlaceOnly no update recreates a Pod for a
// missing claim.
func (o *observation) lacks(pod *corev1.Pod) reason.List {
	if rules(o.set).Policy == podcontrol.InPlaceOnly {
		return nil
	}
	return kruise.ClaimsLackingBlock(pod, o.claims.Templates)
}

// claimStatus reports how far the claims of existing Pods follow the templates.
func (o *observation) claimStatus() (out []v1beta1.VolumeClaimStatus) {
	for i := range o.claims.Templates {
		template := &o.claims.Templates[i]
		fit, grown := o.claims.Count(template, o.pods.Names)
		out = append(out, v1beta1.VolumeClaimStatus{VolumeClaimName: template.Name, CompatibleReplicas: fit, CompatibleReadyReplicas: grown})
	}
	return out
}
