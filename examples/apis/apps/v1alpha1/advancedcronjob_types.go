package v1alpha1

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// AdvancedCronJob starts jobs by a schedule: Jobs of Kubernetes, or BroadcastJobs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=advancedcronjobs,singular=advancedcronjob,shortName=acj,scope=Namespaced
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=".spec.schedule"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=".status.type"
// +kubebuilder:printcolumn:name="LastScheduleTime",type=date,JSONPath=".status.lastScheduleTime"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type AdvancedCronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AdvancedCronJobSpec `json:"spec,omitempty"`
	// +optional
	Status v1beta1.AdvancedCronJobStatus `json:"status,omitempty"`
}

// AdvancedCronJobList is a list of AdvancedCronJobs.
//
// +kubebuilder:object:root=true
type AdvancedCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AdvancedCronJob `json:"items"`
}

// AdvancedCronJobSpec is the desired state of an AdvancedCronJob.
type AdvancedCronJobSpec struct {
	// Schedule is a cron expression of five fields, a word such as @hourly, or "@every 5m". A time zone may come first:
	// "TZ=Asia/Tokyo 0 3 * * *".
	Schedule string `json:"schedule"`
	// TimeZone is the time zone of the schedule, as a name in the IANA database. The default is the time zone of
	// kruise-manager.
	// +optional
	TimeZone *string `json:"timeZone,omitempty"`
	// StartingDeadlineSeconds is how long after the scheduled time a run may still be started, in seconds. By default
	// there is no limit.
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// ConcurrencyPolicy says what happens if a run is due while the previous run has not ended: Allow starts the new
	// run, Forbid waits until the previous run has ended, and Replace deletes the previous run first. The default is
	// Allow.
	// +optional
	ConcurrencyPolicy v1beta1.ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// If Paused is true, no run is started. The default is false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
	// SuccessfulJobsHistoryLimit is the number of successful runs to keep. The default is 3.
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`
	// FailedJobsHistoryLimit is the number of failed runs to keep. The default is 1.
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
	// Template describes the jobs to start.
	Template CronJobTemplate `json:"template"`
}

// CronJobTemplate contains the template of the jobs; exactly one template must be set. Only v1beta1 has a template for
// ImageListPullJobs.
type CronJobTemplate struct {
	// JobTemplate is the template of Jobs of Kubernetes. Unknown fields are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`
	// BroadcastJobTemplate is the template of BroadcastJobs.
	// +optional
	BroadcastJobTemplate *v1beta1.BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
}
