package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// ContainerRecreateRequest asks the node agent to stop containers of a Pod, so that the kubelet starts them again.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=containerrecreaterequests,singular=containerrecreaterequest,shortName=crr,scope=Namespaced
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="POD",type=string,JSONPath=".spec.podName"
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=".metadata.labels.crr\\.apps\\.kruise\\.io/node-name"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type ContainerRecreateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ContainerRecreateRequestSpec `json:"spec,omitempty"`
	// +optional
	Status ContainerRecreateRequestStatus `json:"status,omitzero"`
}

// ContainerRecreateRequestList is a list of ContainerRecreateRequests.
//
// +kubebuilder:object:root=true
type ContainerRecreateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ContainerRecreateRequest `json:"items"`
}

// ContainerRecreateRequestSpec is the request of the user, and cannot change.
type ContainerRecreateRequestSpec struct {
	// PodName is the name of a Pod in the same namespace.
	PodName string `json:"podName"`
	// Containers are recreated in the order of the list.
	Containers []ContainerRecreateRequestContainer `json:"containers"`
	// Strategy says how containers are recreated.
	// +optional
	Strategy *ContainerRecreateRequestStrategy `json:"strategy,omitempty"`
	// ActiveDeadlineSeconds is how long the request may take from creation, in seconds. Unset is unlimited.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is how long the completed request is kept, in seconds. Unset stands for ever.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// Undecodable lists the undecodable fields of the spec. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// ContainerRecreateRequestContainer is a container to recreate. The author of a request sets the name alone; admission
// copies the rest from the Pod.
type ContainerRecreateRequestContainer struct {
	// Name of a container of the Pod's spec. Init containers and ephemeral containers cannot be recreated.
	Name string `json:"name"`
	// PreStop is the container's hook. Written by admission.
	// +optional
	PreStop *corev1.LifecycleHandler `json:"preStop,omitempty"`
	// Ports are the ports of the container, for an HTTP hook with a named port. Written by admission.
	// +optional
	Ports []corev1.ContainerPort `json:"ports,omitempty"`
	// StatusContext is the instance to be replaced. Written by admission.
	// +optional
	StatusContext *ContainerRecreateRequestContainerContext `json:"statusContext,omitempty"`
}

// ContainerRecreateRequestContainerContext tells one instance of a container from the next.
type ContainerRecreateRequestContainerContext struct {
	// ContainerID is the ID of the instance, with the runtime as the scheme.
	ContainerID string `json:"containerID"`
	// RestartCount is the number of earlier instances.
	RestartCount int32 `json:"restartCount"`
}

// ContainerRecreateRequestFailurePolicyType says how to go on after a container could not be recreated.
type ContainerRecreateRequestFailurePolicyType string

const (
	// ContainerRecreateRequestFailurePolicyFail ends the request.
	ContainerRecreateRequestFailurePolicyFail ContainerRecreateRequestFailurePolicyType = "Fail"
	// ContainerRecreateRequestFailurePolicyIgnore goes on with the next container.
	ContainerRecreateRequestFailurePolicyIgnore ContainerRecreateRequestFailurePolicyType = "Ignore"
)

// ContainerRecreateRequestStrategy says how containers are recreated.
type ContainerRecreateRequestStrategy struct {
	// FailurePolicy is Fail or Ignore. Default Fail.
	// +optional
	// +kubebuilder:validation:Enum=Fail;Ignore
	FailurePolicy ContainerRecreateRequestFailurePolicyType `json:"failurePolicy,omitempty"`
	// OrderedRecreate waits until a container is recreated before the next is stopped. Default false.
	// +optional
	OrderedRecreate bool `json:"orderedRecreate,omitempty"`
	// ForceRecreate also stops a container restarted since the creation of the request. Default false.
	// +optional
	ForceRecreate bool `json:"forceRecreate,omitempty"`
	// TerminationGracePeriodSeconds is how long a container may take to stop, in seconds. Default: the Pod's.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// UnreadyGracePeriodSeconds is how long the Pod is not ready before a container is stopped, in seconds. Unset
	// stands for no such time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnreadyGracePeriodSeconds *int64 `json:"unreadyGracePeriodSeconds,omitempty"`
	// MinStartedSeconds is how long a new container must run to count as recreated, in seconds. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
}

// ContainerRecreateRequestPhase is the progress of a request or of a container.
type ContainerRecreateRequestPhase string

const (
	// ContainerRecreateRequestPending is the phase of a request or container that waits for its turn.
	ContainerRecreateRequestPending ContainerRecreateRequestPhase = "Pending"
	// ContainerRecreateRequestRecreating is the phase of a request or container under way.
	ContainerRecreateRequestRecreating ContainerRecreateRequestPhase = "Recreating"
	// ContainerRecreateRequestSucceeded is the phase of a recreated container.
	ContainerRecreateRequestSucceeded ContainerRecreateRequestPhase = "Succeeded"
	// ContainerRecreateRequestFailed is the phase of a container that could not be stopped.
	ContainerRecreateRequestFailed ContainerRecreateRequestPhase = "Failed"
	// ContainerRecreateRequestCompleted is the phase of a request with nothing more to do, whether or not the
	// containers were recreated.
	ContainerRecreateRequestCompleted ContainerRecreateRequestPhase = "Completed"
)

// ContainerRecreateRequestStatus is the report of the node agent and the controller.
type ContainerRecreateRequestStatus struct {
	// Phase is Pending, Recreating or Completed.
	// +kubebuilder:validation:Enum=Pending;Recreating;Succeeded;Failed;Completed
	Phase ContainerRecreateRequestPhase `json:"phase"`
	// CompletionTime is when the request was completed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Message says why a request was completed before all of its containers were recreated.
	// +optional
	Message string `json:"message,omitempty"`
	// ContainerRecreateStates has the progress of each container.
	// +optional
	ContainerRecreateStates []ContainerRecreateRequestContainerRecreateState `json:"containerRecreateStates,omitempty"`
	// ContainerStatusSnapshot holds the running containers started since the creation of the request.
	// +optional
	ContainerStatusSnapshot []ContainerRecreateRequestContainerStatus `json:"containerStatusSnapshot,omitempty"`
	// Conditions say what has happened. PreRecreateGrace is True once the Pod was made not ready, which was at the
	// transition time. Waiting is True while another request for the Pod goes first.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ContainerRecreateRequestContainerRecreateState is the progress of a container.
type ContainerRecreateRequestContainerRecreateState struct {
	// Name of the container.
	Name string `json:"name"`
	// Phase is Pending, Recreating, Succeeded or Failed.
	// +kubebuilder:validation:Enum=Pending;Recreating;Succeeded;Failed;Completed
	Phase ContainerRecreateRequestPhase `json:"phase"`
	// Message says why the container failed.
	// +optional
	Message string `json:"message,omitempty"`
	// IsKilled is true if the container was stopped for the request.
	// +optional
	IsKilled bool `json:"isKilled,omitempty"`
}

// ContainerRecreateRequestContainerStatus is a container that runs.
type ContainerRecreateRequestContainerStatus struct {
	// Name of the container.
	Name string `json:"name"`
	// Ready is as in the Pod's status.
	Ready bool `json:"ready"`
	// RestartCount is as in the Pod's status.
	RestartCount int32 `json:"restartCount"`
	// ContainerID is as in the Pod's status.
	// +optional
	ContainerID string `json:"containerID,omitempty"`
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *ContainerRecreateRequestSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ContainerRecreateRequestSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s ContainerRecreateRequestSpec) MarshalJSON() ([]byte, error) {
	type plain ContainerRecreateRequestSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *ContainerRecreateRequestStatus) UnmarshalJSON(data []byte) error {
	type plain ContainerRecreateRequestStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
