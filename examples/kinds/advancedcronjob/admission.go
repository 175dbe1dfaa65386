package advancedcronjob

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate AdvancedCronJobs. Templates are stored as written,
// without added defaults. The API server validates the templates; for Jobs, by a dry-run creation.
func endpoint(options admission.Options) *admission.Rules[v1beta1.AdvancedCronJob, v1alpha1.AdvancedCronJob] {
	judge := runJudge{admission.NewTemplateJudge(options, api.BroadcastJobPath().String()+" was"), admission.NewDryRun(options)}
	secrets := admission.NewSecretReview(options)
	return &admission.Rules[v1beta1.AdvancedCronJob, v1alpha1.AdvancedCronJob]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "AdvancedCronJob"},
		Resource:   "advancedcronjobs",
		Name:       "advancedcronjob",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.AdvancedCronJob) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, _ *v1beta1.AdvancedCronJob) { api.Default(obj) },
		ValidateCreate: func(ctx context.Context, obj *v1beta1.AdvancedCronJob) (field.ErrorList, error) {
			problems := validateCreate(obj, clock.RealClock{}.Now())
			images := obj.Spec.Template.ImageListPullJobTemplate
			if images == nil {
				return problems, nil
			}
			// The manager creates the ImageListPullJobs, so the user who writes the AdvancedCronJob must have the
			// right to read the pull Secrets.
			denied, err := secrets.Check(ctx, obj.Namespace, images.Spec.PullSecrets, api.ImageListPath().Child("spec", "pullSecrets"))
			if err != nil {
				return nil, apierrors.NewInternalError(err)
			}
			return append(problems, denied...), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.AdvancedCronJob) (field.ErrorList, error) {
			return validateUpdate(obj, stored, clock.RealClock{}.Now()), nil
		},
		CheckTemplate: judge.check,
		TemplateParts: func(admission.Spec) []admission.TemplatePart {
			return []admission.TemplatePart{
				{Path: "template.jobTemplate", Into: &batchv1.JobTemplateSpec{}},
				{Path: "template.broadcastJobTemplate.metadata", Into: &metav1.ObjectMeta{}},
				{Path: "template.broadcastJobTemplate.spec.template", Into: &corev1.PodTemplateSpec{}},
				{Path: "template.imageListPullJobTemplate.metadata", Into: &metav1.ObjectMeta{}},
			}
		},
	}
}

// runJudge asks the API server to validate the templates of AdvancedCronJobs.
type runJudge struct {
	pods admission.TemplateJudge
	dry  admission.DryRun
}

// check validates the template of a new AdvancedCronJob. The template of an existing AdvancedCronJob cannot change.
func (j *runJudge) check(ctx context.Context, obj, stored *v1beta1.AdvancedCronJob) (problems field.ErrorList, warning string) {
	templates := &obj.Spec.Template
	switch {
	case stored != nil:
		return nil, ""
	case templates.JobTemplate != nil:
		return j.checkJob(ctx, obj)
	case templates.BroadcastJobTemplate != nil:
		problems, warning = j.pods.Check(ctx, obj.Namespace, admission.PodTemplate{PodTemplateSpec: &templates.BroadcastJobTemplate.Spec.Template}, admission.PodTemplate{})
		for _, problem := range problems {
			problem.Field = api.BroadcastJobPath().Child("spec").String() + strings.TrimPrefix(problem.Field, "spec")
		}
	}
	return problems, warning
}

// checkJob returns the errors that the API server finds in the Job made from the template. Errors that may be
// temporary, for example because of a quota, are reported only when a run is started.
func (j *runJudge) checkJob(ctx context.Context, obj *v1beta1.AdvancedCronJob) (field.ErrorList, string) {
	if !j.dry.On() {
		return nil, ""
	}
	template := obj.Spec.Template.JobTemplate.DeepCopy()
	// A run at this time has the longest possible name. The length matters because the API server also validates
	// names that contain the Job's name.
	never := time.Unix(9_999_999_999, 0)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: obj.Namespace, Name: api.JobName(obj.Name, never), Labels: template.Labels, Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}
	err := j.dry.Create(ctx, job)
	if err == nil {
		return nil, ""
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && (status.Status().Code == http.StatusUnprocessableEntity || status.Status().Code == http.StatusBadRequest) {
		return admission.Objections(status.Status(), api.JobPath()), ""
	}
	return nil, j.dry.Unchecked(obj.Namespace, api.JobPath().String()+" was", "Jobs", err)
}
