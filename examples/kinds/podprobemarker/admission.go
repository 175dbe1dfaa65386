package podprobemarker

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
)

// endpoint returns the admission rules of PodProbeMarkers. The rules set no defaults. While one of the needed feature
// gates is off, no object can be created and no spec can be changed, because no agent would run the probes.
func endpoint(options admission.Options) *admission.Rules[v1alpha1.PodProbeMarker, v1alpha1.PodProbeMarker] {
	return &admission.Rules[v1alpha1.PodProbeMarker, v1alpha1.PodProbeMarker]{
		GroupKind:   schema.GroupKind{Group: apps.Group, Kind: "PodProbeMarker"},
		Resource:    "podprobemarkers",
		Name:        "podprobemarker",
		HubVersion:  v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1alpha1.PodProbeMarker) []decode.Problem { return obj.Spec.Undecodable },
		Closed:      admission.Gated(options, "nobody would run the probes", apps.GatePodProbeMarker),
		ValidateCreate: func(_ context.Context, obj *v1alpha1.PodProbeMarker) (field.ErrorList, error) {
			return probes.ValidateSpec(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1alpha1.PodProbeMarker) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
		TemplateParts: func(admission.Spec) []admission.TemplatePart { return nil },
	}
}
