package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// ImagePullJob pulls an image on Nodes, before Pods need the image.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=imagepulljobs,singular=imagepulljob,scope=Namespaced
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="ACTIVE",type=integer,JSONPath=".status.active"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=".status.failed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type ImagePullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ImagePullJobSpec `json:"spec,omitempty"`
	// +optional
	Status ImagePullJobStatus `json:"status,omitzero"`
}

// ImagePullJobList is a list of ImagePullJobs.
//
// +kubebuilder:object:root=true
type ImagePullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImagePullJob `json:"items"`
}

// ImagePullJobSpec says which image to pull, and on which Nodes.
type ImagePullJobSpec struct {
	// Image is the image to pull.
	Image string `json:"image"`
	// PullSecrets lists names of Secrets in the job's namespace, with credentials for the registry. The list is
	// immutable.
	// +optional
	PullSecrets []string `json:"pullSecrets,omitempty"`
	// Selector selects the Nodes. By default all Nodes are selected.
	// +optional
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`
	// PodSelector selects Pods in the job's namespace; the image is pulled on the Nodes of these Pods. PodSelector
	// cannot be used together with Selector.
	// +optional
	PodSelector *ImagePullJobPodSelector `json:"podSelector,omitempty"`
	// Parallelism is how many Nodes pull an image at the same time: an integer, also as a string. With 0, no Node
	// starts a pull. The default is 1.
	// +optional
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// PullPolicy contains the limits for the attempts to pull an image.
	// +optional
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`
	// CompletionPolicy says when the job is over. A job of the type Never also pulls on new Nodes.
	CompletionPolicy CompletionPolicy `json:"completionPolicy"`
	// SandboxConfig is passed to the container runtime.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
	// ImagePullPolicy is Always, to ask the registry even if a Node has the image, or IfNotPresent. The default is
	// IfNotPresent.
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// ImagePullJobNodeSelector selects Nodes by name or by label.
//
// +structType=atomic
type ImagePullJobNodeSelector struct {
	// Names lists the names of Nodes. Names cannot be used together with labels.
	// +optional
	Names []string `json:"names,omitempty"`

	metav1.LabelSelector `json:",inline"`
}

// ImagePullJobPodSelector selects Pods by label.
//
// +structType=atomic
type ImagePullJobPodSelector struct {
	metav1.LabelSelector `json:",inline"`
}

// PullPolicy contains the limits for the attempts to pull an image.
type PullPolicy struct {
	// TimeoutSeconds is how long an attempt may take. The default is 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// BackoffLimit is how many attempts are made after the first attempt. The default is 3.
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

// ImagePullJobStatus is the report of the controller.
type ImagePullJobStatus struct {
	// StartTime is when the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the job has ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Desired is the number of selected Nodes.
	Desired int32 `json:"desired"`
	// Active is the number of Nodes that pull the image now.
	// +optional
	Active int32 `json:"active"`
	// Succeeded is the number of Nodes that have the image.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// Failed is the number of Nodes that could not pull the image.
	// +optional
	Failed int32 `json:"failed"`
	// Message describes the progress of the job for users.
	// +optional
	Message string `json:"message,omitempty"`
	// FailedNodes lists the names of failed Nodes.
	// +optional
	FailedNodes []string `json:"failedNodes,omitempty"`
	// Failures says why Nodes have failed, for the first 16 failed Nodes. OpenKruise has no such field.
	// +optional
	Failures []ImagePullJobFailure `json:"failures,omitempty"`
	// Conditions say why the job does not go on: Waiting is True while Nodes wait, and InvalidSpec is True if the spec
	// has invalid values. OpenKruise has no such field.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ImagePullJobFailure says why a Node has failed.
type ImagePullJobFailure struct {
	// Node is the name of the Node.
	Node string `json:"node"`
	// Reason is a CamelCase word that programs can read.
	Reason string `json:"reason"`
	// Message is a text for users, written by the Node's agent.
	// +optional
	Message string `json:"message,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *ImagePullJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ImagePullJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s ImagePullJobSpec) MarshalJSON() ([]byte, error) {
	type plain ImagePullJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *ImagePullJobStatus) UnmarshalJSON(data []byte) error {
	type plain ImagePullJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
