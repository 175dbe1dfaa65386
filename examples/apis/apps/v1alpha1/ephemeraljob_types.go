package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// EphemeralJob runs ephemeral containers in existing Pods. The kind has no other version.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ephemeraljobs,singular=ephemeraljob,shortName=ejob,scope=Namespaced
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="MATCH",type=integer,JSONPath=".status.match"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=".status.failed"
// +kubebuilder:printcolumn:name="RUNNING",type=integer,JSONPath=".status.running"
// +kubebuilder:printcolumn:name="WAITING",type=integer,JSONPath=".status.waiting"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type EphemeralJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EphemeralJobSpec `json:"spec,omitempty"`
	// +optional
	Status EphemeralJobStatus `json:"status,omitempty"`
}

// EphemeralJobList is a list of EphemeralJobs.
//
// +kubebuilder:object:root=true
type EphemeralJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EphemeralJob `json:"items"`
}

// EphemeralJobSpec is the desired state of an EphemeralJob.
type EphemeralJobSpec struct {
	// Selector selects Pods of the namespace. An empty selector selects none.
	Selector *metav1.LabelSelector `json:"selector"`
	// Replicas is how many of the selected Pods get the containers, the oldest first. Default: all.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Parallelism is in how many Pods the containers may run at once. Default 1.
	// +optional
	Parallelism *int32 `json:"parallelism,omitempty"`
	// Template has the containers.
	Template EphemeralContainerTemplateSpec `json:"template"`
	// Paused keeps containers from being added, and the job from ending. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// ActiveDeadlineSeconds is how long after the start the job fails, in seconds. Running containers go on: Kubernetes
	// cannot stop ephemeral containers. Default: never.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is how long after the end the job is deleted, in seconds. Default 1800.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// Undecodable lists the undecodable fields of the spec. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// EphemeralContainerTemplateSpec has the containers of an EphemeralJob.
type EphemeralContainerTemplateSpec struct {
	// EphemeralContainers are added to each Pod. Unknown fields are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	EphemeralContainers []corev1.EphemeralContainer `json:"ephemeralContainers"`
}

// EphemeralJobPhase is how far a job has come.
type EphemeralJobPhase string

const (
	// EphemeralJobSucceeded is the phase after the containers have ended well in all wanted Pods.
	EphemeralJobSucceeded EphemeralJobPhase = "Succeeded"
	// EphemeralJobFailed is the phase of a job that has ended otherwise: containers have failed, or the deadline has
	// passed.
	EphemeralJobFailed EphemeralJobPhase = "Failed"
	// EphemeralJobWaiting is the phase while no container runs, and containers wait for their start or the job for Pods.
	EphemeralJobWaiting EphemeralJobPhase = "Waiting"
	// EphemeralJobRunning is the phase while containers run.
	EphemeralJobRunning EphemeralJobPhase = "Running"
	// EphemeralJobPaused is the phase without new containers, because the spec says so.
	EphemeralJobPaused EphemeralJobPhase = "Paused"
	// EphemeralJobError is the phase of a job with an unusable spec. Pods are left alone meanwhile.
	EphemeralJobError EphemeralJobPhase = "Error"
	// EphemeralJobUnknown is the phase before the first report about any unfinished container.
	EphemeralJobUnknown EphemeralJobPhase = "Unknown"
)

// EphemeralJobStatus is the state of an EphemeralJob as observed by the controller.
type EphemeralJobStatus struct {
	// Conditions say how the job ended, and why the job does not go on.
	// +optional
	Conditions EphemeralJobConditions `json:"conditions,omitempty"`
	// StartTime is when the job began, the base of the deadline.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the job ended, well or not.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Phase is Succeeded, Failed, Waiting, Running, Paused, Error or Unknown.
	// +optional
	Phase EphemeralJobPhase `json:"phase"`
	// Matches is how many Pods match and can have the containers.
	// +optional
	Matches int32 `json:"match"`
	// Running is how many Pods have running containers of the job.
	// +optional
	Running int32 `json:"running"`
	// Succeeded is how many Pods have only well-ended containers of the job.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// Waiting is how many Pods have containers of the job waiting for their start.
	// +optional
	Waiting int32 `json:"waiting"`
	// Failed is how many Pods have a failed container of the job.
	// +optional
	Failed int32 `json:"failed"`
}

// EphemeralJobConditionType names a condition of a job.
type EphemeralJobConditionType string

const (
	// EJobInitialized is True from the start of the job.
	EJobInitialized EphemeralJobConditionType = "Initialized"
	// EJobSucceeded is True when the job has ended well.
	EJobSucceeded EphemeralJobConditionType = "JobSucceeded"
	// EJobFailed is True while containers have failed, and when the job has failed.
	EJobFailed EphemeralJobConditionType = "JobFailed"
	// EJobError is True while the spec is unusable.
	EJobError EphemeralJobConditionType = "JobError"
	// EJobMatchedEmpty is True while no Pod can have the containers.
	EJobMatchedEmpty EphemeralJobConditionType = "MatchedEmpty"
	// EJobWaiting is True while the job does not go on by itself. This project adds the type.
	EJobWaiting EphemeralJobConditionType = "JobWaiting"
	// EJobInjectionFailed is True while Pods do not take the containers. This project adds the type.
	EJobInjectionFailed EphemeralJobConditionType = "InjectionFailed"
)

// EphemeralJobCondition is a condition of a job.
type EphemeralJobCondition struct {
	// Type is the name of the condition.
	Type EphemeralJobConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastProbeTime is when the condition was last looked at.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitzero"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is a CamelCase word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is for humans.
	// +optional
	Message string `json:"message,omitempty"`
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *EphemeralJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain EphemeralJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s EphemeralJobSpec) MarshalJSON() ([]byte, error) {
	type plain EphemeralJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *EphemeralJobStatus) UnmarshalJSON(data []byte) error {
	type plain EphemeralJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
