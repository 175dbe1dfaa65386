package v1beta1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// AdvancedCronJob starts jobs by a schedule: Jobs of Kubernetes, or BroadcastJobs.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Status AdvancedCronJobStatus `json:"status,omitempty"`
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
	// Default Allow, or Replace with an imageListPullJobTemplate.
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// Paused starts no run, and times that pass meanwhile are left out for good. Default false.
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

	// Undecodable says what of the spec could not be decoded. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// ConcurrencyPolicy says what happens while an earlier run goes on.
//
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// AllowConcurrent starts another run.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent waits for the end of the earlier run.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent deletes the earlier run first.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// CronJobTemplate has exactly one template.
type CronJobTemplate struct {
	// JobTemplate is of Jobs of Kubernetes. Fields unknown to this version of the API are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`
	// BroadcastJobTemplate is of BroadcastJobs.
	// +optional
	BroadcastJobTemplate *BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
	// ImageListPullJobTemplate is of ImageListPullJobs.
	// +optional
	ImageListPullJobTemplate *ImageListPullJobTemplateSpec `json:"imageListPullJobTemplate,omitempty"`
}

// BroadcastJobTemplateSpec is what BroadcastJobs are made from.
type BroadcastJobTemplateSpec struct {
	// Labels and annotations of the metadata are those of BroadcastJobs.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is that of BroadcastJobs.
	// +optional
	Spec BroadcastJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobTemplateSpec is what ImageListPullJobs are made from.
type ImageListPullJobTemplateSpec struct {
	// Labels and annotations of the metadata are those of ImageListPullJobs.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is that of ImageListPullJobs.
	// +optional
	Spec ImageListPullJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobSpec says which images are pulled to which Nodes.
type ImageListPullJobSpec struct {
	// Images are pulled, each by a job of its own.
	Images []string `json:"images"`
	// PullSecrets are Secrets of the namespace.
	// +optional
	PullSecrets []string `json:"pullSecrets,omitempty"`
	// Selector chooses Nodes. Default all.
	// +optional
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`
	// PodSelector chooses the Nodes of Pods.
	// +optional
	PodSelector *ImagePullJobPodSelector `json:"podSelector,omitempty"`
	// Parallelism is how many Nodes pull an image at a time. Default 1.
	// +optional
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// PullPolicy is about each attempt.
	// +optional
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`
	// CompletionPolicy says when the job is over.
	CompletionPolicy CompletionPolicy `json:"completionPolicy"`
	// SandboxConfig is given to the container runtime.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
	// ImagePullPolicy is Always or IfNotPresent.
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImagePullJobNodeSelector chooses Nodes by name or by label.
//
// +structType=atomic
type ImagePullJobNodeSelector struct {
	// Names of Nodes.
	// +optional
	Names []string `json:"names,omitempty"`

	metav1.LabelSelector `json:",inline"`
}

// ImagePullJobPodSelector chooses Pods by label.
//
// +structType=atomic
type ImagePullJobPodSelector struct {
	metav1.LabelSelector `json:",inline"`
}

// PullPolicy is about attempts to pull an image.
type PullPolicy struct {
	// TimeoutSeconds is how long an attempt may take. Default 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// BackoffLimit is how many attempts follow the first. Default 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// SandboxConfig is metadata for the container runtime.
type SandboxConfig struct {
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// AdvancedCronJobTemplateType says what is started.
type AdvancedCronJobTemplateType string

const (
	// JobTemplate starts Jobs of Kubernetes.
	JobTemplate AdvancedCronJobTemplateType = "Job"
	// BroadcastJobTemplate starts BroadcastJobs.
	BroadcastJobTemplate AdvancedCronJobTemplateType = "BroadcastJob"
	// ImageListPullJobTemplate starts ImageListPullJobs.
	ImageListPullJobTemplate AdvancedCronJobTemplateType = "ImageListPullJob"
)

// AdvancedCronJobStatus is what the controller reports.
type AdvancedCronJobStatus struct {
	// Type says what is started.
	// +optional
	Type AdvancedCronJobTemplateType `json:"type,omitempty"`
	// Active are the runs that have not ended.
	// +optional
	Active []corev1.ObjectReference `json:"active,omitempty"`
	// LastScheduleTime is the newest time of the schedule for which a run was started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// ObservedSchedule is what the spec said of times when the controller looked last, and since when.
	// +optional
	ObservedSchedule *ObservedSchedule `json:"observedSchedule,omitempty"`
}

// ObservedSchedule is what a spec says of times. A change of it is noticed by comparing.
type ObservedSchedule struct {
	// Schedule is that of the spec.
	Schedule string `json:"schedule"`
	// TimeZone is that of the spec.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// Paused is that of the spec.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Since is when any of these was changed last. No run is started for a time until then. Default: since the AdvancedCronJob was made.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}
