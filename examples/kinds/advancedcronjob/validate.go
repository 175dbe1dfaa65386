package advancedcronjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// maxName is the largest length of a name, in characters. A dash and ten digits are added for the name of a job, which
// must be valid as a name and as the value of a label.
const maxName = utilvalidation.LabelValueMaxLength - 1 - 10

// validateSpec returns all errors in a spec.
func validateSpec(obj *v1beta1.AdvancedCronJob, now time.Time) field.ErrorList {
	_, problems, warnings := resolve(obj, now)
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateCreate returns the errors in a new object with defaults. The name must not contain a dot.
func validateCreate(obj *v1beta1.AdvancedCronJob, now time.Time) field.ErrorList {
	return append(validation.NameUpTo(maxName, obj, apivalidation.NameIsDNSLabel), validateSpec(obj, now)...)
}

// validateUpdate returns the errors in an update: a changed template, and all errors of [validateCreate] except about
// the name. An error is left out if old has the same error, at the same path with the same value.
func validateUpdate(obj, old *v1beta1.AdvancedCronJob, now time.Time) field.ErrorList {
	errs := validation.NewProblems(validateSpec(obj, now), validateSpec(old, now))
	next, stored := &obj.Spec.Template, &old.Spec.Template
	for _, template := range []struct {
		path *field.Path
		same bool
	}{
		{api.JobPath(), sameJobs(next.JobTemplate, stored.JobTemplate)},
		{api.BroadcastJobPath(), sameBroadcastJobs(next.BroadcastJobTemplate, stored.BroadcastJobTemplate)},
		{api.ImageListPath(), apiequality.Semantic.DeepEqual(next.ImageListPullJobTemplate,
			stored.ImageListPullJobTemplate)},
	} {
		if !template.same {
			errs = append(errs, field.Forbidden(template.path,
				"cannot change; updates may change only schedule, timeZone, concurrencyPolicy, "+
					"paused, startingDeadlineSeconds, successfulJobsHistoryLimit and failedJobsHistoryLimit"))
		}
	}
	return errs
}

// sameJobs reports whether two templates give the same Jobs. The templates may differ in fields with default values,
// because OpenKruise stores defaults in templates, and the user's manifest does not contain them.
func sameJobs(a, b *batchv1.JobTemplateSpec) bool {
	if a == nil || b == nil || apiequality.Semantic.DeepEqual(a, b) {
		return (a == nil) == (b == nil)
	}
	return apiequality.Semantic.DeepEqual(completeJob(a), completeJob(b))
}

func completeJob(t *batchv1.JobTemplateSpec) *batchv1.JobTemplateSpec {
	t = t.DeepCopy()
	completePods(&t.Spec.Template)
	return t
}

func sameBroadcastJobs(a, b *v1beta1.BroadcastJobTemplateSpec) bool {
	if a == nil || b == nil || apiequality.Semantic.DeepEqual(a, b) {
		return (a == nil) == (b == nil)
	}
	return apiequality.Semantic.DeepEqual(completeBroadcastJob(a), completeBroadcastJob(b))
}

func completeBroadcastJob(t *v1beta1.BroadcastJobTemplateSpec) *v1beta1.BroadcastJobTemplateSpec {
	t = t.DeepCopy()
	broadcastjob.DefaultSpec(&t.Spec)
	completePods(&t.Spec.Template)
	return t
}

// completePods sets the defaults in a Pod template that OpenKruise sets.
func completePods(template *corev1.PodTemplateSpec) {
	defaults.PodTemplate(template, defaults.Options{ContainerImagePullPolicy: corev1.PullAlways})
}
