package statefulset

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
)

// lacks returns the claims that a Pod has lacked since its creation, and because of which an update recreates the
// Pod. With the policy InPlaceOnly, the result is empty.
func (o *observation) lacks(pod *corev1.Pod) reason.List {
	if rules(o.set).Policy == podcontrol.InPlaceOnly {
		return nil
	}
	return podcontrol.LackedClaims(pod, o.claims.Templates)
}

// claimStatus reports how many claims of existing Pods have the size in the templates.
func (o *observation) claimStatus() (out []v1beta1.VolumeClaimStatus) {
	for i := range o.claims.Templates {
		template := &o.claims.Templates[i]
		fit, grown := o.claims.Count(template, o.pods.Names)
		out = append(out, v1beta1.VolumeClaimStatus{VolumeClaimName: template.Name, CompatibleReplicas: fit, CompatibleReadyReplicas: grown})
	}
	return out
}
