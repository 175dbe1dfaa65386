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

// AdvancedCronJobSpec is the desired state of an AdvancedCronJob.
type AdvancedCronJobSpec struct {
	// Schedule is a cron expression of five fields, a word such as @hourly, or "@every 5m". A time zone may come first:
	// "TZ=Asia/Tokyo 0 3 * * *".
	Schedule string `json:"schedule"`
	// TimeZone is the time zone of the schedule, as a name in the IANA database. Default: that of kruise-manager.
	// +optional
	TimeZone *string `json:"timeZone,omitempty"`
	// StartingDeadlineSeconds is how long after the scheduled time a run may still be started, in seconds. Default: no
	// limit.
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// ConcurrencyPolicy says what happens while an earlier run goes on: Allow starts another run, Forbid waits for the
	// end of the earlier run, and Replace deletes the earlier run first. Default Allow, or Replace with an
	// imageListPullJobTemplate.
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// Paused starts no run, and scheduled times during the pause are skipped for good. Default false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
	// SuccessfulJobsHistoryLimit is how many successful runs are kept. Default 3.
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`
	// FailedJobsHistoryLimit is how many failed runs are kept. Default 1.
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
	// Template describes the runs.
	Template CronJobTemplate `json:"template"`

	// Undecodable lists the undecodable fields of the spec. Such a field is empty, and the object cannot be encoded.
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
	// JobTemplate is the template of Jobs of Kubernetes. Unknown fields are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`
	// BroadcastJobTemplate is the template of BroadcastJobs.
	// +optional
	BroadcastJobTemplate *BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
	// ImageListPullJobTemplate is the template of ImageListPullJobs.
	// +optional
	ImageListPullJobTemplate *ImageListPullJobTemplateSpec `json:"imageListPullJobTemplate,omitempty"`
}

// BroadcastJobTemplateSpec describes the BroadcastJobs to create.
type BroadcastJobTemplateSpec struct {
	// BroadcastJobs get the labels and annotations of the metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of BroadcastJobs.
	// +optional
	Spec BroadcastJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobTemplateSpec describes the ImageListPullJobs to create.
type ImageListPullJobTemplateSpec struct {
	// ImageListPullJobs get the labels and annotations of the metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of ImageListPullJobs.
	// +optional
	Spec ImageListPullJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobSpec names images to pull, and chooses the Nodes.
type ImageListPullJobSpec struct {
	// Images are pulled, each by a separate job.
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

// AdvancedCronJobTemplateType is the kind of the runs.
type AdvancedCronJobTemplateType string

const (
	// JobTemplate starts Jobs of Kubernetes.
	JobTemplate AdvancedCronJobTemplateType = "Job"
	// BroadcastJobTemplate starts BroadcastJobs.
	BroadcastJobTemplate AdvancedCronJobTemplateType = "BroadcastJob"
	// ImageListPullJobTemplate starts ImageListPullJobs.
	ImageListPullJobTemplate AdvancedCronJobTemplateType = "ImageListPullJob"
)

// AdvancedCronJobStatus is the report of the controller.
type AdvancedCronJobStatus struct {
	// Type is the kind of the runs.
	// +optional
	Type AdvancedCronJobTemplateType `json:"type,omitempty"`
	// Active lists the unfinished runs.
	// +optional
	Active []corev1.ObjectReference `json:"active,omitempty"`
	// LastScheduleTime is the newest scheduled time with a run started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// ObservedSchedule is the spec's schedule, time zone and pause as last seen by the controller, and the time of
	// their last change.
	// +optional
	ObservedSchedule *ObservedSchedule `json:"observedSchedule,omitempty"`
}

// ObservedSchedule is the schedule, time zone and pause of a spec. The controller compares it with the spec to notice a
// change.
type ObservedSchedule struct {
	// Schedule is the schedule of the spec.
	Schedule string `json:"schedule"`
	// TimeZone is the time zone of the spec.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// Paused is true if the spec is paused.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Since is the time of the last change of schedule, time zone or pause. No run is started for a scheduled time up
	// to then. Default: the creation time of the AdvancedCronJob.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *AdvancedCronJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain AdvancedCronJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	if broadcast := s.Template.BroadcastJobTemplate; err == nil && broadcast != nil {
		for _, problem := range broadcast.Spec.Undecodable {
			problem.Path = "spec.template.broadcastJobTemplate." + problem.Path
			s.Undecodable = append(s.Undecodable, problem)
		}
	}
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s AdvancedCronJobSpec) MarshalJSON() ([]byte, error) {
	type plain AdvancedCronJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *AdvancedCronJobStatus) UnmarshalJSON(data []byte) error {
	type plain AdvancedCronJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
