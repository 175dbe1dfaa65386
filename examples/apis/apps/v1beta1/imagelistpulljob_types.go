package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// ImageListPullJob pulls several images on Nodes, each image by a separate ImagePullJob.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=imagelistpulljobs,singular=imagelistpulljob,scope=Namespaced
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="SUCCEEDED",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="COMPLETED",type=integer,JSONPath=".status.completed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type ImageListPullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ImageListPullJobSpec `json:"spec,omitempty"`
	// +optional
	Status ImageListPullJobStatus `json:"status,omitzero"`
}

// ImageListPullJobList is a list of ImageListPullJobs.
//
// +kubebuilder:object:root=true
type ImageListPullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImageListPullJob `json:"items"`
}

// ImageListPullJobSpec lists images to pull, and selects the Nodes.
type ImageListPullJobSpec struct {
	// Images lists at most 255 images; each image is pulled by a separate job.
	Images []string `json:"images"`
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

// ImageListPullJobStatus is the report of the controller.
type ImageListPullJobStatus struct {
	// StartTime is when the controller first saw the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the jobs of all images have ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Desired is the number of images.
	Desired int32 `json:"desired"`
	// Active is the number of images that some Nodes pull now.
	// +optional
	Active int32 `json:"active"`
	// Completed is the number of images that every Node has either pulled or failed to pull.
	// +optional
	Completed int32 `json:"completed"`
	// Succeeded is the number of images that every Node has.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// FailedImageStatuses lists the images that some Nodes could not pull, by name.
	// +optional
	FailedImageStatuses []*FailedImageStatus `json:"failedImageStatuses,omitempty"`
	// Conditions say why the job does not go on: FailedCreate is True while jobs cannot be created, and InvalidSpec is
	// True if the spec has invalid values. OpenKruise has no such field.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FailedImageStatus says where and why an image could not be pulled.
type FailedImageStatus struct {
	// ImagePullJob is the name of the image's job.
	// +optional
	ImagePullJob string `json:"imagePullJob,omitempty"`
	// Name is the image.
	// +optional
	Name string `json:"name,omitempty"`
	// Message names some failed Nodes and the last error.
	// +optional
	Message string `json:"message,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *ImageListPullJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ImageListPullJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s ImageListPullJobSpec) MarshalJSON() ([]byte, error) {
	type plain ImageListPullJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *ImageListPullJobStatus) UnmarshalJSON(data []byte) error {
	type plain ImageListPullJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
