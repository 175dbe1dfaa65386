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

// AdvancedCronJobSpec is what the user wants.
type AdvancedCronJobSpec struct {
	// Schedule is a cron expression of five fields, a word such as @hourly, or "@every 5m". It may begin with a time zone: "TZ=Asia/Tokyo 0 3 * * *".
	Schedule string `json:"schedule"`
	// TimeZone is that of the schedule, by its name in the IANA database. Default: that of kruise-manager.
	// +optional
	TimeZone *string `json:"timeZone,omitempty"`
	// StartingDeadlineSeconds is how long after its time a run may still be started, in seconds. Default: however long.
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// ConcurrencyPolicy says what happens while an earlier run goes on: Allow starts another, Forbid waits for its end, and Replace deletes it first.
	// Default Allow.
	// +optional
	ConcurrencyPolicy v1beta1.ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// Paused starts no run. Default false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
	// SuccessfulJobsHistoryLimit is how many runs are kept that have ended well. Default 3.
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`
	// FailedJobsHistoryLimit is how many runs are kept that have failed. Default 1.
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
	// Template is what is started.
	Template CronJobTemplate `json:"template"`
}

// CronJobTemplate has one template. A template of ImageListPullJobs is in v1beta1 alone.
type CronJobTemplate struct {
	// JobTemplate is of Jobs of Kubernetes. Fields unknown to this version of the API are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`
	// BroadcastJobTemplate is of BroadcastJobs.
	// +optional
	BroadcastJobTemplate *v1beta1.BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
}
