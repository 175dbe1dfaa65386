package daemonset

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/daemonset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate DaemonSets. Pod templates are stored as written,
// without defaults; the API server validates the templates after setting its own defaults.
func endpoint(options admission.Options) *admission.Rules[v1beta1.DaemonSet, v1alpha1.DaemonSet] {
	judge := admission.NewTemplateJudge(options, "spec.template was")
	return &admission.Rules[v1beta1.DaemonSet, v1alpha1.DaemonSet]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "DaemonSet"},
		Resource:   "daemonsets",
		Name:       "daemonset",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.DaemonSet) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, _ *v1beta1.DaemonSet) { api.Default(obj) },
		DefaultOld:  api.DefaultV1alpha1,
		ValidateCreate: func(_ context.Context, obj *v1beta1.DaemonSet) (field.ErrorList, error) {
			return validateCreate(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.DaemonSet) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
		Warn: func(obj *v1beta1.DaemonSet, _ *v1alpha1.DaemonSet) []string {
			if crowding := crowdingOf(obj); crowding != nil {
				return []string{crowding.String()}
			}
			return nil
		},
		CheckTemplate: func(ctx context.Context, obj, stored *v1beta1.DaemonSet) (field.ErrorList, string) {
			return judge.Check(ctx, obj.Namespace, daemonSetTemplate(obj), daemonSetTemplate(stored))
		},
		ValidateOld: validateV1alpha1,
	}
}

func daemonSetTemplate(obj *v1beta1.DaemonSet) admission.PodTemplate {
	if obj == nil {
		return admission.PodTemplate{}
	}
	return admission.PodTemplate{PodTemplateSpec: &obj.Spec.Template}
}
