package v1beta1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// AdvancedCronJob starts jobs by a schedule: Jobs of Kubernetes, BroadcastJobs or ImageListPullJobs.
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
	// Allow. If imageListPullJobTemplate is set, the default is Replace.
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// If Paused is true, no run is started; runs that would be due during the pause are never made up for. The
	// default is false.
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

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// ConcurrencyPolicy says what happens if a run is due while the previous run has not ended.
//
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// AllowConcurrent starts the new run.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent waits until the previous run has ended.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent deletes the previous run first.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// CronJobTemplate contains the template of the jobs; exactly one template must be set.
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
	// BroadcastJobs get the labels and annotations of this metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of BroadcastJobs.
	// +optional
	Spec BroadcastJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobTemplateSpec describes the ImageListPullJobs to create.
type ImageListPullJobTemplateSpec struct {
	// ImageListPullJobs get the labels and annotations of this metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of ImageListPullJobs.
	// +optional
	Spec ImageListPullJobSpec `json:"spec,omitempty"`
}

// AdvancedCronJobTemplateType is the kind of the jobs.
type AdvancedCronJobTemplateType string

const (
	// JobTemplate means Jobs of Kubernetes.
	JobTemplate AdvancedCronJobTemplateType = "Job"
	// BroadcastJobTemplate means BroadcastJobs.
	BroadcastJobTemplate AdvancedCronJobTemplateType = "BroadcastJob"
	// ImageListPullJobTemplate means ImageListPullJobs.
	ImageListPullJobTemplate AdvancedCronJobTemplateType = "ImageListPullJob"
)

// AdvancedCronJobStatus is the report of the controller.
type AdvancedCronJobStatus struct {
	// Type is the kind of the jobs.
	// +optional
	Type AdvancedCronJobTemplateType `json:"type,omitempty"`
	// Active lists the runs that have not ended.
	// +optional
	Active []corev1.ObjectReference `json:"active,omitempty"`
	// LastScheduleTime is the newest scheduled time for which a run was started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// ObservedSchedule contains the schedule, the time zone and the pause in the spec as the controller has last seen
	// them, and the time of their last change.
	// +optional
	ObservedSchedule *ObservedSchedule `json:"observedSchedule,omitempty"`
}

// ObservedSchedule contains the schedule, the time zone and the pause of a spec. The controller compares an
// ObservedSchedule with the spec to notice a change.
type ObservedSchedule struct {
	// Schedule is the value of spec.schedule.
	Schedule string `json:"schedule"`
	// TimeZone is the value of spec.timeZone.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// Paused is true if the spec pauses the schedule.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Since is the time of the last change of schedule, time zone or pause. No run is started for a scheduled time
	// before Since. If unset, the creation time of the AdvancedCronJob is used.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *AdvancedCronJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain AdvancedCronJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	if err != nil {
		return err
	}
	if broadcast := s.Template.BroadcastJobTemplate; broadcast != nil {
		s.refuse("spec.template.broadcastJobTemplate.", broadcast.Spec.Undecodable)
	}
	if images := s.Template.ImageListPullJobTemplate; images != nil {
		s.refuse("spec.template.imageListPullJobTemplate.", images.Spec.Undecodable)
	}
	return nil
}

// refuse adds the undecodable fields of a template to the undecodable fields of the spec.
func (s *AdvancedCronJobSpec) refuse(template string, problems []decode.Problem) {
	for _, problem := range problems {
		problem.Path = template + problem.Path
		s.Undecodable = append(s.Undecodable, problem)
	}
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s AdvancedCronJobSpec) MarshalJSON() ([]byte, error) {
	type plain AdvancedCronJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *AdvancedCronJobStatus) UnmarshalJSON(data []byte) error {
	type plain AdvancedCronJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
