package imagelistpulljob

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

// endpoint returns the admission rules that default and validate ImageListPullJobs. While the feature gate
// ImagePullJobGate is off, no job can be written. The manager creates an ImagePullJob for each image, so the user who
// creates or changes the ImageListPullJob must have the right to read the pull Secrets.
func endpoint(options admission.Options) *admission.Rules[v1beta1.ImageListPullJob, v1alpha1.ImageListPullJob] {
	secrets := admission.NewSecretReview(options)
	check := func(ctx context.Context, obj *v1beta1.ImageListPullJob, problems field.ErrorList) (field.ErrorList, error) {
		denied, err := secrets.Check(ctx, obj.Namespace, obj.Spec.PullSecrets, field.NewPath("spec", "pullSecrets"))
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		return append(problems, denied...), nil
	}
	return &admission.Rules[v1beta1.ImageListPullJob, v1alpha1.ImageListPullJob]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "ImageListPullJob"},
		Resource:   "imagelistpulljobs",
		Name:       "imagelistpulljob",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Closed:      admission.Gated(options, "nobody would carry it out", apps.GateImagePullJob),
		Undecodable: func(obj *v1beta1.ImageListPullJob) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, _ *v1beta1.ImageListPullJob) { api.DefaultList(obj) },
		ValidateCreate: func(ctx context.Context, obj *v1beta1.ImageListPullJob) (field.ErrorList, error) {
			return check(ctx, obj, validateCreate(obj))
		},
		ValidateUpdate: func(ctx context.Context, obj, stored *v1beta1.ImageListPullJob) (field.ErrorList, error) {
			problems := validateUpdate(obj, stored)
			if isSame(&obj.Spec, &stored.Spec) {
				return problems, nil
			}
			return check(ctx, obj, problems)
		},
		TemplateParts: func(admission.Spec) []admission.TemplatePart { return nil },
	}
}
