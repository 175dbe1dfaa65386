package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// EphemeralJob runs ephemeral containers in existing Pods. The kind exists only in this version.
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
	// Selector selects Pods in the job's namespace. An empty selector selects no Pods.
	Selector *metav1.LabelSelector `json:"selector"`
	// Replicas is how many of the selected Pods get the containers, the oldest first. By default all selected Pods get
	// the containers.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Parallelism is in how many Pods the containers may run at the same time. The default is 1.
	// +optional
	Parallelism *int32 `json:"parallelism,omitempty"`
	// Template contains the containers to add.
	Template EphemeralContainerTemplateSpec `json:"template"`
	// If Paused is true, no containers are added, and the job does not end. The default is false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// ActiveDeadlineSeconds is how long after its start the job fails, in seconds. Containers that are running
	// continue: Kubernetes cannot stop ephemeral containers. By default there is no deadline.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is how long after its end the job is deleted, in seconds. The default is 1800.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// EphemeralContainerTemplateSpec contains the containers of an EphemeralJob.
type EphemeralContainerTemplateSpec struct {
	// EphemeralContainers are added to each Pod. Unknown fields are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	EphemeralContainers []corev1.EphemeralContainer `json:"ephemeralContainers"`
}

// EphemeralJobPhase is the progress of a job.
type EphemeralJobPhase string

const (
	// EphemeralJobSucceeded means that the containers have ended successfully in all wanted Pods.
	EphemeralJobSucceeded EphemeralJobPhase = "Succeeded"
	// EphemeralJobFailed means that the job has ended without success: containers have failed, or the deadline has
	// passed.
	EphemeralJobFailed EphemeralJobPhase = "Failed"
	// EphemeralJobWaiting means that no container is running, and that containers wait for their start, or the job
	// waits for Pods.
	EphemeralJobWaiting EphemeralJobPhase = "Waiting"
	// EphemeralJobRunning means that containers are running.
	EphemeralJobRunning EphemeralJobPhase = "Running"
	// EphemeralJobPaused means that no containers are added, because the spec pauses the job.
	EphemeralJobPaused EphemeralJobPhase = "Paused"
	// EphemeralJobError means that the spec is invalid. In this phase the controller does not change Pods.
	EphemeralJobError EphemeralJobPhase = "Error"
	// EphemeralJobUnknown means that no Node has reported an unfinished container yet.
	EphemeralJobUnknown EphemeralJobPhase = "Unknown"
)

// EphemeralJobStatus is the state of an EphemeralJob as observed by the controller.
type EphemeralJobStatus struct {
	// Conditions say how the job has ended, or why the job does not continue.
	// +optional
	Conditions EphemeralJobConditions `json:"conditions,omitempty"`
	// StartTime is when the job has started; the deadline is counted from this time.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the job has ended, successfully or not.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Phase is Succeeded, Failed, Waiting, Running, Paused, Error or Unknown.
	// +optional
	Phase EphemeralJobPhase `json:"phase"`
	// Matches is the number of Pods that match and can get the containers.
	// +optional
	Matches int32 `json:"match"`
	// Running is the number of Pods with running containers of the job.
	// +optional
	Running int32 `json:"running"`
	// Succeeded is the number of Pods in which all containers of the job have ended successfully.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// Waiting is the number of Pods with containers of the job that have not started.
	// +optional
	Waiting int32 `json:"waiting"`
	// Failed is the number of Pods with a failed container of the job.
	// +optional
	Failed int32 `json:"failed"`
}

// EphemeralJobConditionType names a condition of a job.
type EphemeralJobConditionType string

const (
	// EJobInitialized is True from the start of the job.
	EJobInitialized EphemeralJobConditionType = "Initialized"
	// EJobSucceeded is True if the job has ended successfully.
	EJobSucceeded EphemeralJobConditionType = "JobSucceeded"
	// EJobFailed is True if containers have failed, or the job has failed.
	EJobFailed EphemeralJobConditionType = "JobFailed"
	// EJobError is True while the spec is invalid.
	EJobError EphemeralJobConditionType = "JobError"
	// EJobMatchedEmpty is True while no Pod can get the containers.
	EJobMatchedEmpty EphemeralJobConditionType = "MatchedEmpty"
	// EJobWaiting is True while the job cannot continue by itself. OpenKruise does not have this condition.
	EJobWaiting EphemeralJobConditionType = "JobWaiting"
	// EJobInjectionFailed is True while containers cannot be added to Pods. OpenKruise does not have this condition.
	EJobInjectionFailed EphemeralJobConditionType = "InjectionFailed"
)

// EphemeralJobCondition is a condition of a job.
type EphemeralJobCondition struct {
	// Type is the name of the condition.
	Type EphemeralJobConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastProbeTime is when the condition was last checked.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitzero"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is a CamelCase word that programs can read.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is a text for users.
	// +optional
	Message string `json:"message,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *EphemeralJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain EphemeralJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s EphemeralJobSpec) MarshalJSON() ([]byte, error) {
	type plain EphemeralJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *EphemeralJobStatus) UnmarshalJSON(data []byte) error {
	type plain EphemeralJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
