package imagepulljob

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/imagepulljob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate ImagePullJobs. While the feature gate ImagePullJobGate
// is off, no job can be written.
func endpoint(options admission.Options, flags *flags) *admission.Rules[v1beta1.ImagePullJob, v1alpha1.ImagePullJob] {
	secrets := admission.NewSecretReview(options)
	return &admission.Rules[v1beta1.ImagePullJob, v1alpha1.ImagePullJob]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "ImagePullJob"},
		Resource:   "imagepulljobs",
		Name:       "imagepulljob",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Closed:      admission.Gated(options, "nobody would carry it out", apps.GateImagePullJob),
		Undecodable: func(obj *v1beta1.ImagePullJob) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, _ *v1beta1.ImagePullJob) { api.Default(obj) },
		ValidateCreate: func(ctx context.Context, obj *v1beta1.ImagePullJob) (field.ErrorList, error) {
			problems := validateSpec(flags.rules(), obj)
			denied, err := secrets.Check(ctx, obj.Namespace, obj.Spec.PullSecrets, field.NewPath("spec", "pullSecrets"))
			if err != nil {
				return nil, apierrors.NewInternalError(err)
			}
			return append(problems, denied...), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.ImagePullJob) (field.ErrorList, error) {
			return validateUpdate(flags.rules(), obj, stored), nil
		},
		TemplateParts: func(admission.Spec) []admission.TemplatePart { return nil },
	}
}
