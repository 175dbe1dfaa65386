package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// BroadcastJob runs a Pod to completion on every suitable Node.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=broadcastjobs,singular=broadcastjob,shortName=bcj,scope=Namespaced
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=".status.active"
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=".status.failed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type BroadcastJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BroadcastJobSpec `json:"spec,omitempty"`
	// +optional
	Status BroadcastJobStatus `json:"status,omitempty"`
}

// BroadcastJobList is a list of BroadcastJobs.
//
// +kubebuilder:object:root=true
type BroadcastJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BroadcastJob `json:"items"`
}

// BroadcastJobSpec is the desired state of a BroadcastJob.
type BroadcastJobSpec struct {
	// Parallelism is how many Pods may run at once: an integer, or a percentage of the Nodes that should have a Pod,
	// rounded up. Default 2147483647.
	// +optional
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// Template describes the Pods. The restartPolicy is Never or OnFailure. Unknown fields are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// CompletionPolicy says when the job is over. Default: when every Node is done.
	// +optional
	CompletionPolicy CompletionPolicy `json:"completionPolicy,omitempty"`
	// Paused keeps Pods from being created and deleted, and the job from ending. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// FailurePolicy says how a failed Pod affects the job.
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// Undecodable lists the undecodable fields of the spec. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// CompletionPolicyType says whether a job ends.
type CompletionPolicyType string

const (
	// Always ends the job when a Pod has ended on every suitable Node.
	Always CompletionPolicyType = "Always"
	// Never lets the job go on: new Nodes get a Pod.
	Never CompletionPolicyType = "Never"
)

// CompletionPolicy says when a job is over, and when an ended job is deleted.
type CompletionPolicy struct {
	// Type is Always or Never. Default Always.
	// +optional
	Type CompletionPolicyType `json:"type,omitempty"`
	// ActiveDeadlineSeconds is how long after the start the job fails, in seconds. Only with type Always. Default:
	// never.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is how long after the end the job is deleted, in seconds. Only with type Always. Default:
	// never.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// FailurePolicyType says how a failed Pod affects the job.
type FailurePolicyType string

const (
	// FailurePolicyTypeFailFast fails the job, and deletes unfinished Pods.
	FailurePolicyTypeFailFast FailurePolicyType = "FailFast"
	// FailurePolicyTypeContinue goes on with the remaining Nodes.
	FailurePolicyTypeContinue FailurePolicyType = "Continue"
	// FailurePolicyTypePause pauses the job, until the spec is changed or the failed Pods are gone.
	FailurePolicyTypePause FailurePolicyType = "Pause"
)

// FailurePolicy says when a Pod has failed, and how a failed Pod affects the job.
type FailurePolicy struct {
	// Type is FailFast, Continue or Pause. Default FailFast.
	// +optional
	Type FailurePolicyType `json:"type,omitempty"`
	// RestartLimit is how often the containers of a Pod with restartPolicy OnFailure may restart, all together, before
	// the Pod counts as failed. Default 0.
	// +optional
	RestartLimit int32 `json:"restartLimit,omitempty"`
}

// BroadcastJobPhase is how far a job has come.
type BroadcastJobPhase string

const (
	// PhaseCompleted is the phase after a Pod has ended on every Node.
	PhaseCompleted BroadcastJobPhase = "completed"
	// PhaseRunning is the phase of a job under way.
	PhaseRunning BroadcastJobPhase = "running"
	// PhasePaused is the phase without new Pods: the spec says so, or Pods have failed with the failure policy Pause.
	PhasePaused BroadcastJobPhase = "paused"
	// PhaseFailed is the phase of a job that has ended early.
	PhaseFailed BroadcastJobPhase = "failed"
)

// BroadcastJobStatus is the state of a BroadcastJob as observed by the controller.
type BroadcastJobStatus struct {
	// Conditions say how the job ended, and why the job does not go on.
	// +optional
	Conditions []JobCondition `json:"conditions,omitempty"`
	// StartTime is when the controller saw the job first.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the job ended, well or not.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Active is how many Pods have not ended.
	// +optional
	Active int32 `json:"active"`
	// Succeeded is how many Pods have ended well.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// Failed is how many Pods have failed.
	// +optional
	Failed int32 `json:"failed"`
	// Desired is how many Nodes should have a Pod.
	// +optional
	Desired int32 `json:"desired"`
	// Phase is running, paused, completed or failed.
	// +optional
	Phase BroadcastJobPhase `json:"phase"`
}

// JobConditionType names a condition of a job.
type JobConditionType string

const (
	// JobComplete is True when the job has ended well.
	JobComplete JobConditionType = "Complete"
	// JobFailed is True when the job has ended early.
	JobFailed JobConditionType = "Failed"
	// JobPaused is True while failed Pods pause the job.
	JobPaused JobConditionType = "Paused"
	// JobInvalidSpec is True while the spec holds unusable values. Pods are left alone meanwhile.
	JobInvalidSpec JobConditionType = "InvalidSpec"
	// JobFailedCreatePod is True while Pods cannot be created.
	JobFailedCreatePod JobConditionType = "FailedCreatePod"
)

// JobCondition is a condition of a job.
type JobCondition struct {
	// Type is the name of the condition.
	Type JobConditionType `json:"type"`
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
	// ObservedGeneration is the generation of the job paused by condition Paused: at any other generation the job goes
	// on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *BroadcastJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain BroadcastJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s BroadcastJobSpec) MarshalJSON() ([]byte, error) {
	type plain BroadcastJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *BroadcastJobStatus) UnmarshalJSON(data []byte) error {
	type plain BroadcastJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
