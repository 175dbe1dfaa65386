package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// NodeImage lists the images that a Node should have. The object has the Node's name. The controllers of image jobs
// write the spec, and the Node's agent writes the status.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeimages,singular=nodeimage,scope=Cluster
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="PULLING",type=integer,JSONPath=".status.pulling"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=".status.failed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeImageSpec `json:"spec,omitempty"`
	// +optional
	Status NodeImageStatus `json:"status,omitzero"`
}

// NodeImageList is a list of NodeImages.
//
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeImage `json:"items"`
}

// NodeImageSpec lists the images wanted on a Node.
type NodeImageSpec struct {
	// Images are the wanted images, by name without tag: "nginx" or "ghcr.io/team/app".
	// +optional
	Images map[string]ImageSpec `json:"images,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// ImageSpec lists the wanted tags of an image.
type ImageSpec struct {
	// PullSecrets are Secrets with credentials for the registry.
	// +optional
	PullSecrets []ReferenceObject `json:"pullSecrets,omitempty"`
	// SandboxConfig is passed to the container runtime.
	// +optional
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
	// Tags are the wanted tags and digests, in the order of their names.
	Tags []ImageTagSpec `json:"tags"`
}

// ReferenceObject names a Secret.
type ReferenceObject struct {
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// Mode is batch if the Secret is a copy that the manager has made for several jobs. The copy may be missing for a
	// moment; the reference then stays in the spec.
	// +optional
	Mode ReferenceMode `json:"mode,omitempty"`
	// Tags are the tags for which the Secret may be used. If empty, the Secret may be used for all tags of the image.
	// OpenKruise has no such field: in OpenKruise, every pull of the image may use the Secret.
	// +optional
	Tags []string `json:"tags,omitempty"`
}

// ReferenceMode says how a Secret is shared.
type ReferenceMode string

// ReferenceModeBatch means that the Secret is a copy shared by several jobs.
const ReferenceModeBatch ReferenceMode = "batch"

// ImageTagSpec is a wanted tag of an image.
type ImageTagSpec struct {
	// Tag is a tag, or a digest such as "sha256:...".
	Tag string `json:"tag"`
	// CreatedAt is when a job has last asked for the tag. The default is the time of the write.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
	// PullPolicy contains the limits for the attempts to pull the image.
	// +optional
	PullPolicy *ImageTagPullPolicy `json:"pullPolicy,omitempty"`
	// OwnerReferences are the jobs that want the tag.
	// +optional
	OwnerReferences []corev1.ObjectReference `json:"ownerReferences,omitempty"`
	// Version is the number of the pull: a status of another version belongs to an earlier pull.
	// +optional
	Version int64 `json:"version,omitempty"`
	// OwnerVersions contains for each owner, by UID, the earliest version whose result is valid for the owner. For an
	// owner without an entry, only the result of Version is valid. OpenKruise has no such field.
	// +optional
	OwnerVersions map[string]int64 `json:"ownerVersions,omitempty"`
	// ImagePullPolicy is Always or IfNotPresent. OpenKruise's daemon treats the empty value as Always.
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
}

// ImageTagPullPolicy contains the limits for the attempts to pull an image, and for the time that a tag is wanted.
type ImageTagPullPolicy struct {
	// TimeoutSeconds is how long an attempt may take. The default is 600.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// BackoffLimit is how many attempts are made after the first attempt. The default is 3.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	// TTLSecondsAfterFinished is how long after the end of the pull the tag is removed from the spec.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// ActiveDeadlineSeconds is how long all attempts together may take. By default there is no deadline.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// If Keep is true, the image is pulled again whenever the image disappears from the Node. OpenKruise has no such
	// field.
	// +optional
	Keep bool `json:"keep,omitempty"`
}

// ImagePullPhase is the progress of a pull.
type ImagePullPhase string

const (
	// ImagePhaseWaiting means that the pull has not begun, or waits for the next attempt.
	ImagePhaseWaiting ImagePullPhase = "Waiting"
	// ImagePhasePulling means that the image is being pulled.
	ImagePhasePulling ImagePullPhase = "Pulling"
	// ImagePhaseSucceeded means that the image was pulled, or was present already.
	ImagePhaseSucceeded ImagePullPhase = "Succeeded"
	// ImagePhaseFailed means that the image could not be pulled.
	ImagePhaseFailed ImagePullPhase = "Failed"
)

// NodeImageStatus is the report of the Node's agent.
type NodeImageStatus struct {
	// Desired is the number of wanted tags.
	Desired int32 `json:"desired"`
	// Succeeded is the number of pulled tags.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// Failed is the number of failed tags.
	// +optional
	Failed int32 `json:"failed"`
	// Pulling is the number of tags that are being pulled.
	// +optional
	Pulling int32 `json:"pulling"`
	// Waiting is the number of tags that wait.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// ImageStatuses are the reports about images, by name without tag.
	// +optional
	ImageStatuses map[string]ImageStatus `json:"imageStatuses,omitempty"`
	// FirstSyncStatus is the result of the first check of the images on the Node. Nothing in OpenKruise 1.9 writes
	// the field.
	// +optional
	FirstSyncStatus *SyncStatus `json:"firstSyncStatus,omitempty"`
	// Conditions are about the Node: ImagesPresent is True if all wanted images are present. OpenKruise has no such
	// field.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ImageStatus contains the reports about an image.
type ImageStatus struct {
	// Tags are the reports about tags, in the order of their names.
	Tags []ImageTagStatus `json:"tags"`
}

// ImageTagStatus is the report about a tag. OpenKruise has the fields from Tag to Message.
type ImageTagStatus struct {
	// Tag is the tag or digest of the spec.
	Tag string `json:"tag"`
	// Phase is Waiting, Pulling, Succeeded or Failed.
	Phase ImagePullPhase `json:"phase"`
	// Progress is a percentage, where the container runtime reports one.
	// +optional
	Progress int32 `json:"progress,omitempty"`
	// StartTime is when the first attempt began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the image was pulled or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Version is the version of the spec to which the report belongs.
	// +optional
	Version int64 `json:"version,omitempty"`
	// ImageID is the ID of the image in the container runtime.
	// +optional
	ImageID string `json:"imageID,omitempty"`
	// Message explains the last failure.
	// +optional
	Message string `json:"message,omitempty"`

	// Present says whether the image was on the Node at the agent's last check. If unset, the image counts as present
	// if the phase is Succeeded.
	// +optional
	Present *bool `json:"present,omitempty"`
	// Attempts is the number of attempts since StartTime.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// RetryTime is when the next attempt may begin.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
	// Losses is how often the image has disappeared from the Node.
	// +optional
	Losses int32 `json:"losses,omitempty"`
	// SizeBytes is the size of the image.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Answers are the results of pulls of earlier versions: at most one success and one failure.
	// +optional
	Answers []ImageTagAnswer `json:"answers,omitempty"`
}

// ImageTagAnswer is the result of an earlier pull.
type ImageTagAnswer struct {
	// Version is the version of the spec to which the result belongs.
	Version int64 `json:"version"`
	// Phase is Succeeded or Failed.
	Phase ImagePullPhase `json:"phase"`
	// CompletionTime is when the pull ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Message explains a failure.
	// +optional
	Message string `json:"message,omitempty"`
}

// SyncStatusPhase says how the first check of the images on a Node has ended.
type SyncStatusPhase string

// SyncStatus is the result of the first check of the images on a Node.
type SyncStatus struct {
	// +optional
	SyncAt metav1.Time `json:"syncAt,omitempty"`
	// +optional
	Status SyncStatusPhase `json:"status,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *NodeImageSpec) UnmarshalJSON(data []byte) (err error) {
	type plain NodeImageSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s NodeImageSpec) MarshalJSON() ([]byte, error) {
	type plain NodeImageSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *NodeImageStatus) UnmarshalJSON(data []byte) error {
	type plain NodeImageStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
