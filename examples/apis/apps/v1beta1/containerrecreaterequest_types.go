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

// ContainerRecreateRequestSpec is what the user requests, and is immutable.
type ContainerRecreateRequestSpec struct {
	// PodName is the name of a Pod in the same namespace.
	PodName string `json:"podName"`
	// Containers are recreated in the order of the list.
	Containers []ContainerRecreateRequestContainer `json:"containers"`
	// Strategy says how containers are recreated.
	// +optional
	Strategy *ContainerRecreateRequestStrategy `json:"strategy,omitempty"`
	// ActiveDeadlineSeconds is how long the request may take from creation, in seconds. If unset, there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is how long the request is kept after its completion, in seconds. If unset, the request
	// is kept for ever.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// ContainerRecreateRequestContainer is a container to be recreated. The author of a request sets only the name;
// admission copies the other fields from the Pod.
type ContainerRecreateRequestContainer struct {
	// Name is the name of a container in the Pod's spec. Init containers and ephemeral containers cannot be recreated.
	Name string `json:"name"`
	// PreStop is the container's preStop hook. The value is written by admission.
	// +optional
	PreStop *corev1.LifecycleHandler `json:"preStop,omitempty"`
	// Ports are the ports of the container, which an HTTP hook with a named port needs. The value is written by
	// admission.
	// +optional
	Ports []corev1.ContainerPort `json:"ports,omitempty"`
	// StatusContext identifies the instance of the container that is to be replaced. The value is written by admission.
	// +optional
	StatusContext *ContainerRecreateRequestContainerContext `json:"statusContext,omitempty"`
}

// ContainerRecreateRequestContainerContext identifies an instance of a container.
type ContainerRecreateRequestContainerContext struct {
	// ContainerID is the ID of the instance, with the name of the runtime as the scheme.
	ContainerID string `json:"containerID"`
	// RestartCount is the number of instances before this instance.
	RestartCount int32 `json:"restartCount"`
}

// ContainerRecreateRequestFailurePolicyType says what is done after a container could not be recreated.
type ContainerRecreateRequestFailurePolicyType string

const (
	// ContainerRecreateRequestFailurePolicyFail means that the request ends.
	ContainerRecreateRequestFailurePolicyFail ContainerRecreateRequestFailurePolicyType = "Fail"
	// ContainerRecreateRequestFailurePolicyIgnore means that the request continues with the next container.
	ContainerRecreateRequestFailurePolicyIgnore ContainerRecreateRequestFailurePolicyType = "Ignore"
)

// ContainerRecreateRequestStrategy says how containers are recreated.
type ContainerRecreateRequestStrategy struct {
	// FailurePolicy is Fail or Ignore. The default is Fail.
	// +optional
	// +kubebuilder:validation:Enum=Fail;Ignore
	FailurePolicy ContainerRecreateRequestFailurePolicyType `json:"failurePolicy,omitempty"`
	// If OrderedRecreate is true, a container is stopped only after the previous container in the list has been
	// recreated. The default is false.
	// +optional
	OrderedRecreate bool `json:"orderedRecreate,omitempty"`
	// If ForceRecreate is true, containers that were restarted after the creation of the request are also stopped. The
	// default is false.
	// +optional
	ForceRecreate bool `json:"forceRecreate,omitempty"`
	// TerminationGracePeriodSeconds is how long a container may take to stop, in seconds. The default is the Pod's
	// grace period.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// UnreadyGracePeriodSeconds is how long before the stop of a container the Pod is made not ready, in seconds. If
	// unset, the request does not change the Pod's readiness.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnreadyGracePeriodSeconds *int64 `json:"unreadyGracePeriodSeconds,omitempty"`
	// MinStartedSeconds is how long a new container must run before it counts as recreated, in seconds. The default is
	// 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
}

// ContainerRecreateRequestPhase is the progress of a request or of a container.
type ContainerRecreateRequestPhase string

const (
	// ContainerRecreateRequestPending means that work on the request or the container has not begun.
	ContainerRecreateRequestPending ContainerRecreateRequestPhase = "Pending"
	// ContainerRecreateRequestRecreating means that the request is in progress, or that the container is being
	// recreated.
	ContainerRecreateRequestRecreating ContainerRecreateRequestPhase = "Recreating"
	// ContainerRecreateRequestSucceeded means that the container was recreated.
	ContainerRecreateRequestSucceeded ContainerRecreateRequestPhase = "Succeeded"
	// ContainerRecreateRequestFailed means that the container could not be stopped.
	ContainerRecreateRequestFailed ContainerRecreateRequestPhase = "Failed"
	// ContainerRecreateRequestCompleted means that nothing more is done for the request, whether or not its containers
	// were recreated.
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
	// ContainerRecreateStates contains the progress of each container.
	// +optional
	ContainerRecreateStates []ContainerRecreateRequestContainerRecreateState `json:"containerRecreateStates,omitempty"`
	// ContainerStatusSnapshot lists the running containers that were started after the creation of the request.
	// +optional
	ContainerStatusSnapshot []ContainerRecreateRequestContainerStatus `json:"containerStatusSnapshot,omitempty"`
	// Conditions say what has happened. PreRecreateGrace is True once the Pod was made not ready; lastTransitionTime
	// is the time of the change. Waiting is True while another request for the Pod must be completed first.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ContainerRecreateRequestContainerRecreateState is the progress of a container.
type ContainerRecreateRequestContainerRecreateState struct {
	// Name is the name of the container.
	Name string `json:"name"`
	// Phase is Pending, Recreating, Succeeded or Failed.
	// +kubebuilder:validation:Enum=Pending;Recreating;Succeeded;Failed;Completed
	Phase ContainerRecreateRequestPhase `json:"phase"`
	// Message says why the container could not be recreated.
	// +optional
	Message string `json:"message,omitempty"`
	// IsKilled is true if the container was stopped for the request.
	// +optional
	IsKilled bool `json:"isKilled,omitempty"`
}

// ContainerRecreateRequestContainerStatus is the status of a running container.
type ContainerRecreateRequestContainerStatus struct {
	// Name is the name of the container.
	Name string `json:"name"`
	// Ready is copied from the Pod's status.
	Ready bool `json:"ready"`
	// RestartCount is copied from the Pod's status.
	RestartCount int32 `json:"restartCount"`
	// ContainerID is copied from the Pod's status.
	// +optional
	ContainerID string `json:"containerID,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *ContainerRecreateRequestSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ContainerRecreateRequestSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s ContainerRecreateRequestSpec) MarshalJSON() ([]byte, error) {
	type plain ContainerRecreateRequestSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *ContainerRecreateRequestStatus) UnmarshalJSON(data []byte) error {
	type plain ContainerRecreateRequestStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
