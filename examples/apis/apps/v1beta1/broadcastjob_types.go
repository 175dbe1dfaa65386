package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// BroadcastJob runs a Pod on every fitting Node until the Pod ends.
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
	// Parallelism is how many Pods may run at the same time: an integer, or a percentage, rounded up, of the Nodes that
	// should have a Pod. The default is 2147483647.
	// +optional
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// Template describes the Pods. The restartPolicy is Never or OnFailure. Unknown fields are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// CompletionPolicy says when the job is over. By default, a job is over when the Pod of every Node has ended.
	// +optional
	CompletionPolicy CompletionPolicy `json:"completionPolicy,omitempty"`
	// If Paused is true, no Pods are created or deleted, and the job does not end. The default is false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// FailurePolicy says how a failed Pod affects the job.
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// CompletionPolicyType says whether a job ever ends.
type CompletionPolicyType string

const (
	// Always means that the job ends when a Pod has ended on every fitting Node.
	Always CompletionPolicyType = "Always"
	// Never means that the job does not end: new Nodes get a Pod.
	Never CompletionPolicyType = "Never"
)

// CompletionPolicy says when a job is over, and when an ended job is deleted.
type CompletionPolicy struct {
	// Type is Always or Never. The default is Always.
	// +optional
	Type CompletionPolicyType `json:"type,omitempty"`
	// ActiveDeadlineSeconds is how long after its start the job fails, in seconds. The field may be set only with the
	// type Always. By default there is no deadline.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is how long after its end the job is deleted, in seconds. The field may be set only with
	// the type Always. By default there is no deadline.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// FailurePolicyType says how a failed Pod affects the job.
type FailurePolicyType string

const (
	// FailurePolicyTypeFailFast means that the job fails, and that unfinished Pods are deleted.
	FailurePolicyTypeFailFast FailurePolicyType = "FailFast"
	// FailurePolicyTypeContinue means that the job continues with the remaining Nodes.
	FailurePolicyTypeContinue FailurePolicyType = "Continue"
	// FailurePolicyTypePause means that the job is paused until the spec is changed, or the failed Pods are deleted.
	FailurePolicyTypePause FailurePolicyType = "Pause"
)

// FailurePolicy says when a Pod counts as failed, and how a failed Pod affects the job.
type FailurePolicy struct {
	// Type is FailFast, Continue or Pause. The default is FailFast.
	// +optional
	Type FailurePolicyType `json:"type,omitempty"`
	// RestartLimit is how often the containers of a Pod with the restartPolicy OnFailure may restart, all containers
	// counted together, before the Pod counts as failed. The default is 0.
	// +optional
	RestartLimit int32 `json:"restartLimit,omitempty"`
}

// BroadcastJobPhase is the progress of a job.
type BroadcastJobPhase string

const (
	// PhaseCompleted means that a Pod has ended on every Node.
	PhaseCompleted BroadcastJobPhase = "completed"
	// PhaseRunning means that the job is in progress.
	PhaseRunning BroadcastJobPhase = "running"
	// PhasePaused means that no Pods are created, because the spec pauses the job, or because Pods have failed and the
	// failure policy is Pause.
	PhasePaused BroadcastJobPhase = "paused"
	// PhaseFailed means that the job has ended before a Pod has ended on every Node.
	PhaseFailed BroadcastJobPhase = "failed"
)

// BroadcastJobStatus is the state of a BroadcastJob as observed by the controller.
type BroadcastJobStatus struct {
	// Conditions say how the job has ended, or why the job does not continue.
	// +optional
	Conditions []JobCondition `json:"conditions,omitempty"`
	// StartTime is when the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the job has ended, successfully or not.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Active is the number of Pods that have not ended.
	// +optional
	Active int32 `json:"active"`
	// Succeeded is the number of Pods that have ended successfully.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// Failed is the number of Pods that have failed.
	// +optional
	Failed int32 `json:"failed"`
	// Desired is the number of Nodes that should have a Pod.
	// +optional
	Desired int32 `json:"desired"`
	// Phase is running, paused, completed or failed.
	// +optional
	Phase BroadcastJobPhase `json:"phase"`
}

// JobConditionType names a condition of a job.
type JobConditionType string

const (
	// JobComplete is True if the job has ended successfully.
	JobComplete JobConditionType = "Complete"
	// JobFailed is True if the job has failed.
	JobFailed JobConditionType = "Failed"
	// JobPaused is True while the job is paused because Pods have failed.
	JobPaused JobConditionType = "Paused"
	// JobInvalidSpec is True while the spec contains invalid values. Meanwhile the controller does not change Pods.
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
	// ObservedGeneration of the condition Paused is the generation of the job when the job was paused. Once the
	// generation changes, the job continues.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *BroadcastJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain BroadcastJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s BroadcastJobSpec) MarshalJSON() ([]byte, error) {
	type plain BroadcastJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *BroadcastJobStatus) UnmarshalJSON(data []byte) error {
	type plain BroadcastJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
