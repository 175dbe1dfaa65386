package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// ContainerRecreateRequest asks the node agent to stop containers of a Pod, so that the kubelet starts them again.
//
// +kubebuilder:object:root=true
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
	Containers []v1beta1.ContainerRecreateRequestContainer `json:"containers"`
	// Strategy says how containers are recreated.
	// +optional
	Strategy *ContainerRecreateRequestStrategy `json:"strategy,omitempty"`
	// ActiveDeadlineSeconds is how long the request may take from creation, in seconds. If unset, there is no limit.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is how long the request is kept after its completion, in seconds. If unset, the request
	// is kept for ever.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ContainerRecreateRequestStrategy says how containers are recreated. The schema of v1alpha1 sets no bounds; admission
// checks the values.
type ContainerRecreateRequestStrategy struct {
	// FailurePolicy is Fail or Ignore. The default is Fail.
	// +optional
	FailurePolicy v1beta1.ContainerRecreateRequestFailurePolicyType `json:"failurePolicy,omitempty"`
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
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// UnreadyGracePeriodSeconds is how long before the stop of a container the Pod is made not ready, in seconds. If
	// unset, the request does not change the Pod's readiness.
	// +optional
	UnreadyGracePeriodSeconds *int64 `json:"unreadyGracePeriodSeconds,omitempty"`
	// MinStartedSeconds is how long a new container must run before it counts as recreated, in seconds. The default is
	// 0.
	// +optional
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
}

// ContainerRecreateRequestStatus is the report of the node agent and the controller. In v1alpha1, further facts that
// v1beta1 has in fields are in annotations.
type ContainerRecreateRequestStatus struct {
	// Phase is Pending, Recreating or Completed.
	Phase v1beta1.ContainerRecreateRequestPhase `json:"phase"`
	// CompletionTime is when the request was completed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Message says why a request was completed before all of its containers were recreated.
	// +optional
	Message string `json:"message,omitempty"`
	// ContainerRecreateStates contains the progress of each container.
	// +optional
	ContainerRecreateStates []ContainerRecreateRequestContainerRecreateState `json:"containerRecreateStates,omitempty"`
}

// ContainerRecreateRequestContainerRecreateState is the progress of a container.
type ContainerRecreateRequestContainerRecreateState struct {
	// Name is the name of the container.
	Name string `json:"name"`
	// Phase is Pending, Recreating, Succeeded or Failed.
	Phase v1beta1.ContainerRecreateRequestPhase `json:"phase"`
	// Message says why the container could not be recreated.
	// +optional
	Message string `json:"message,omitempty"`
	// IsKilled is true if the container was stopped for the request.
	// +optional
	IsKilled bool `json:"isKilled,omitempty"`
}
