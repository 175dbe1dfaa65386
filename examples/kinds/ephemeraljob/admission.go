package ephemeraljob

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
)

// endpoint returns the admission rules of EphemeralJobs. The rules set no defaults.
func endpoint(admission.Options) *admission.Rules[v1alpha1.EphemeralJob, v1alpha1.EphemeralJob] {
	return &admission.Rules[v1alpha1.EphemeralJob, v1alpha1.EphemeralJob]{
		GroupKind:   schema.GroupKind{Group: apps.Group, Kind: "EphemeralJob"},
		Resource:    "ephemeraljobs",
		Name:        "ephemeraljob",
		HubVersion:  v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1alpha1.EphemeralJob) []decode.Problem { return obj.Spec.Undecodable },
		ValidateCreate: func(_ context.Context, obj *v1alpha1.EphemeralJob) (field.ErrorList, error) {
			return validateSpec(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1alpha1.EphemeralJob) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
		Warn: func(obj, _ *v1alpha1.EphemeralJob) []string { return warn(obj) },
		TemplateParts: func(admission.Spec) []admission.TemplatePart {
			return []admission.TemplatePart{{Path: "template", Into: &v1alpha1.EphemeralContainerTemplateSpec{}}}
		},
	}
}
