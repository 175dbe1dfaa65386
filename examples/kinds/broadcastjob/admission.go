package broadcastjob

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate BroadcastJobs. Pod templates are stored as written,
// without defaults; the API server validates the templates after setting its own defaults.
func endpoint(options admission.Options) *admission.Rules[v1beta1.BroadcastJob, v1alpha1.BroadcastJob] {
	judge := admission.NewTemplateJudge(options, "spec.template was")
	return &admission.Rules[v1beta1.BroadcastJob, v1alpha1.BroadcastJob]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "BroadcastJob"},
		Resource:   "broadcastjobs",
		Name:       "broadcastjob",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.BroadcastJob) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, _ *v1beta1.BroadcastJob) { api.Default(obj) },
		ValidateCreate: func(_ context.Context, obj *v1beta1.BroadcastJob) (field.ErrorList, error) {
			return validateCreate(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.BroadcastJob) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
		CheckTemplate: func(ctx context.Context, obj, stored *v1beta1.BroadcastJob) (field.ErrorList, string) {
			return judge.Check(ctx, obj.Namespace, broadcastJobTemplate(obj), broadcastJobTemplate(stored))
		},
	}
}

func broadcastJobTemplate(obj *v1beta1.BroadcastJob) admission.PodTemplate {
	if obj == nil {
		return admission.PodTemplate{}
	}
	return admission.PodTemplate{PodTemplateSpec: &obj.Spec.Template}
}
