package advancedcronjob

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// Unusable returns every value of the spec that a controller cannot work with, apart from the schedule. Controllers ask
// Unusable about stored objects, because objects can bypass admission; [ValidateCreate] and [ValidateUpdate] refuse all
// unusable values and more.
//
// The spec need not be defaulted. The order of the result depends on the spec alone.
func Unusable(spec *v1beta1.AdvancedCronJobSpec) field.ErrorList {
	errs := oneTemplate(&spec.Template)
	if spec.Template.ImageListPullJobTemplate != nil {
		errs = append(errs, field.Forbidden(ImageListPath(), "nobody runs ImageListPullJobs here; use jobTemplate or broadcastJobTemplate"))
	}
	if broadcast := spec.Template.BroadcastJobTemplate; broadcast != nil {
		errs = append(errs, broadcastjob.Unusable(&broadcast.Spec, BroadcastJobPath().Child("spec"))...)
	}
	errs = append(errs, oneOf(spec.ConcurrencyPolicy)...)
	errs = append(errs, validation.NotNegative(spec.StartingDeadlineSeconds, specPath().Child("startingDeadlineSeconds"))...)
	errs = append(errs, validation.NotNegative(spec.SuccessfulJobsHistoryLimit, specPath().Child("successfulJobsHistoryLimit"))...)
	return append(errs, validation.NotNegative(spec.FailedJobsHistoryLimit, specPath().Child("failedJobsHistoryLimit"))...)
}

func specPath() *field.Path     { return field.NewPath("spec") }
func templatePath() *field.Path { return specPath().Child("template") }

// JobPath is where the template of Jobs is.
func JobPath() *field.Path { return templatePath().Child("jobTemplate") }

// BroadcastJobPath is where the template of BroadcastJobs is.
func BroadcastJobPath() *field.Path { return templatePath().Child("broadcastJobTemplate") }

// ImageListPath is where the template of ImageListPullJobs is.
func ImageListPath() *field.Path { return templatePath().Child("imageListPullJobTemplate") }

func oneTemplate(t *v1beta1.CronJobTemplate) field.ErrorList {
	n := 0
	for _, is := range []bool{t.JobTemplate != nil, t.BroadcastJobTemplate != nil, t.ImageListPullJobTemplate != nil} {
		if is {
			n++
		}
	}
	switch n {
	case 1:
		return nil
	case 0:
		return field.ErrorList{field.Required(templatePath(), "one of jobTemplate and broadcastJobTemplate")}
	}
	return field.ErrorList{field.Forbidden(templatePath(), "has several templates; use one")}
}

// oneOf refuses unknown policies. Empty stands for the default.
func oneOf(policy v1beta1.ConcurrencyPolicy) field.ErrorList {
	known := []v1beta1.ConcurrencyPolicy{v1beta1.AllowConcurrent, v1beta1.ForbidConcurrent, v1beta1.ReplaceConcurrent}
	if policy == "" || slices.Contains(known, policy) {
		return nil
	}
	return field.ErrorList{field.NotSupported(specPath().Child("concurrencyPolicy"), policy, known)}
}
