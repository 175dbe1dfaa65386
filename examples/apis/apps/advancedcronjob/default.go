// Package advancedcronjob answers "what does the API make of an AdvancedCronJob somebody writes: what is filled in, what is refused?"
//
// There is one set of rules for what no controller can work with, [Unusable], which controllers ask too, because objects come past admission.
// What a schedule and a time zone are is for examples/schedule to say, and what a Job is for the API server.
//
// The functions are pure and work on v1beta1, the hub. Templates are stored as they were written, and jobs get the API server's defaults when
// they are made. Names are short enough for the names of jobs, which have the seconds since 1970 behind a dash. A template of ImageListPullJobs is
// refused: nobody carries it out here. An update is never refused for a problem that the stored object already has.
package advancedcronjob

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// Defaults of OpenKruise 1.9.
const (
	DefaultSuccessfulJobsHistoryLimit int32 = 3
	DefaultFailedJobsHistoryLimit     int32 = 1
	DefaultPullTimeoutSeconds         int32 = 600
	DefaultPullBackoffLimit           int32 = 3
)

// Default fills in what the user left out. It is idempotent.
func Default(obj *v1beta1.AdvancedCronJob) {
	spec := &obj.Spec
	if spec.ConcurrencyPolicy == "" {
		spec.ConcurrencyPolicy = v1beta1.AllowConcurrent
		if spec.Template.ImageListPullJobTemplate != nil {
			spec.ConcurrencyPolicy = v1beta1.ReplaceConcurrent
		}
	}
	defaults.IfNil(&spec.Paused, false)
	defaults.IfNil(&spec.SuccessfulJobsHistoryLimit, DefaultSuccessfulJobsHistoryLimit)
	defaults.IfNil(&spec.FailedJobsHistoryLimit, DefaultFailedJobsHistoryLimit)
	if list := spec.Template.ImageListPullJobTemplate; list != nil {
		defaultImageList(&list.Spec)
	}
}

// defaultImageList fills in what the schema demands and users leave out, so that they are told the reason why there is no such job here.
func defaultImageList(spec *v1beta1.ImageListPullJobSpec) {
	if spec.CompletionPolicy.Type != "" {
		return
	}
	spec.CompletionPolicy.Type = v1beta1.Always
	if spec.PullPolicy == nil {
		spec.PullPolicy = &v1beta1.PullPolicy{}
	}
	defaults.IfNil(&spec.PullPolicy.TimeoutSeconds, DefaultPullTimeoutSeconds)
	defaults.IfNil(&spec.PullPolicy.BackoffLimit, DefaultPullBackoffLimit)
	if spec.ImagePullPolicy == "" {
		spec.ImagePullPolicy = corev1.PullIfNotPresent
	}
}
