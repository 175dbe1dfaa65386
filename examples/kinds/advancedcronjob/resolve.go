package advancedcronjob

import (
	"cmp"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob/schedule"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/reason"
)

// resolve parses and validates the spec, with or without defaults. Problems are values with which no controller can
// work; no run is then started. Warnings are values that the controller can use, but that are probably a mistake. If
// the spec gives no time zone, the schedule is in the controller's local time.
func resolve(obj *v1beta1.AdvancedCronJob, now time.Time) (when *schedule.Schedule, problems, warnings judge.Faults) {
	spec := &obj.Spec
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, path := &judge.Reading{}, field.NewPath("spec")
	oneTemplate(read, &spec.Template, path.Child("template"))
	if broadcast := spec.Template.BroadcastJobTemplate; broadcast != nil {
		read.BroadcastJob(api.BroadcastJobPath().Child("spec"), &broadcast.Spec)
	}
	if images := spec.Template.ImageListPullJobTemplate; images != nil {
		read.ImageListPullJob(api.ImageListPath().Child("spec"), &images.Spec)
	}
	judge.OneOf(read, "spec.concurrencyPolicy", spec.ConcurrencyPolicy, v1beta1.AllowConcurrent,
		v1beta1.ForbidConcurrent, v1beta1.ReplaceConcurrent)
	read.Refuse(validation.NotNegative(spec.StartingDeadlineSeconds, path.Child("startingDeadlineSeconds"))...)
	read.Refuse(validation.NotNegative(spec.SuccessfulJobsHistoryLimit, path.Child("successfulJobsHistoryLimit"))...)
	read.Refuse(validation.NotNegative(spec.FailedJobsHistoryLimit, path.Child("failedJobsHistoryLimit"))...)
	when = readSchedule(read, spec, now)
	return when, read.Problems, read.Warnings
}

// oneTemplate returns an error unless exactly one template is set.
func oneTemplate(read *judge.Reading, t *v1beta1.CronJobTemplate, path *field.Path) {
	n := 0
	for _, is := range []bool{t.JobTemplate != nil, t.BroadcastJobTemplate != nil, t.ImageListPullJobTemplate != nil} {
		if is {
			n++
		}
	}
	switch {
	case n == 0:
		read.Refuse(field.Required(path, "one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate"))
	case n > 1:
		read.Refuse(field.Forbidden(path, "has several templates; use one"))
	}
}

// readSchedule parses the schedule and the time zone. A schedule that is due too often, or never, leads to a warning,
// and is used as written.
func readSchedule(read *judge.Reading, spec *v1beta1.AdvancedCronJobSpec, now time.Time) *schedule.Schedule {
	zone := spec.TimeZone
	if spec.Schedule == "" {
		zone = nil // only the missing schedule is to be reported
	}
	when, unreadable := schedule.Parse(spec.Schedule, zone, now.Location())
	var why reason.Reason
	if !errors.As(cmp.Or(unreadable, schedule.Check(spec.Schedule, zone, now)), &why) {
		return when
	}
	fault := judge.Fault{Reason: why, Refusal: field.Invalid(field.NewPath(why.Path), why.New,
		why.Detail+"; "+why.Remedy)}
	switch {
	case spec.Schedule == "":
		fault.Refusal = field.Required(field.NewPath("spec", "schedule"),
			"five fields of cron, or a word such as @hourly")
		read.Problems = append(read.Problems, fault)
	case unreadable != nil:
		read.Problems = append(read.Problems, fault)
	default:
		read.Warnings = append(read.Warnings, fault)
	}
	return when
}
