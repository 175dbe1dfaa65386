// Package advancedcronjob answers "what does the API do with an AdvancedCronJob written by a user: the defaults, and
// the names of its jobs?"
//
// The functions are pure and work on v1beta1, the hub of conversions. Templates are stored as written; jobs get the
// API server's defaults when the jobs are created.
package advancedcronjob

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// These are the defaults of OpenKruise 1.9.
const (
	DefaultSuccessfulJobsHistoryLimit int32 = 3
	DefaultFailedJobsHistoryLimit     int32 = 1
	DefaultPullTimeoutSeconds         int32 = 600
	DefaultPullBackoffLimit           int32 = 3
)

// Default sets the fields left out by the user. Default is idempotent.
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

// defaultImageList sets the fields of an ImageListPullJob template as OpenKruise does: all of them, if the type of the
// completion policy is missing, and none otherwise.
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
