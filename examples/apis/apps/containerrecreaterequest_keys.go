package apps

// These are the keys of ContainerRecreateRequest.
const (
	// LabelRequestPodUID is the UID of a request's Pod. Admission writes the value, which is immutable.
	LabelRequestPodUID = "crr.apps.kruise.io/pod-uid"
	// LabelRequestNodeName is the Pod's Node. The agent of a Node watches the requests with its own Node's name.
	// Admission writes the value, which is immutable.
	LabelRequestNodeName = "crr.apps.kruise.io/node-name"
	// LabelRequestActive is "true" until the request is completed. The value is written by admission, removed by the
	// controller.
	LabelRequestActive = "crr.apps.kruise.io/active"
	// AnnotationRequestSyncContainerStatuses on a v1alpha1 object contains the value of the v1beta1 field
	// status.containerStatusSnapshot. The value is written by the controller and by conversion. Value: JSON such as
	// [{"name":"app","ready":true,"restartCount":3,"containerID":"containerd://ab12"}].
	AnnotationRequestSyncContainerStatuses = "crr.apps.kruise.io/sync-container-statuses"
	// AnnotationRequestUnreadyAcquired on a v1alpha1 request contains the transition time of ConditionPreRecreateGrace.
	// The value is written by the controller and by conversion. Value: RFC 3339 in UTC.
	AnnotationRequestUnreadyAcquired = "crr.apps.kruise.io/unready-acquired"
	// FinalizerRequestUnreadyAcquired prevents the deletion of a request as long as the request keeps its Pod not
	// ready. The value is written and removed by the controller.
	FinalizerRequestUnreadyAcquired = "crr.apps.kruise.io/unready-acquired"
	// ConditionPreRecreateGrace is True on a request that has made its Pod not ready. The transition time is when the
	// Pod was made not ready. The condition's reason has the same text as the type.
	ConditionPreRecreateGrace = "PreRecreateGrace"
	// NotReadyUserAgentRequest is the userAgent of requests in ConditionKruisePodReady. The key there contains the
	// namespace and the name of the request.
	NotReadyUserAgentRequest = "ContainerRecreateRequest"
	// EventInvalidContainerRecreateRequest is a Warning: the spec is invalid, and the request is completed.
	EventInvalidContainerRecreateRequest = "InvalidContainerRecreateRequest"
	// EventRequestCompleted says why the controller, not the agent, has completed a request. The event is a Warning,
	// unless the Pod is gone or has ended.
	EventRequestCompleted = "CompletedEarly"
	// EventFailedUnready is a Warning: the request's Pod could not be made not ready, or could not be made ready again.
	EventFailedUnready = "FailedUnready"
)

// These are the messages of requests that the controller has completed.
const (
	// RequestPodGone says that the Pod was deleted, or that a new Pod has the name of the Pod.
	RequestPodGone = "pod has gone"
	// RequestPodEnded says that the Pod has ended, so its containers do not restart. OpenKruise has no such message.
	RequestPodEnded = "pod has ended"
	// RequestAgentSilent says that no agent has started to work on the request.
	RequestAgentSilent = "daemon has not responded for a long time"
	// RequestDeadlineExceeded says that the deadline has passed. Containers that were stopped before the deadline stay
	// stopped, or are being restarted.
	RequestDeadlineExceeded = "recreating has exceeded the activeDeadlineSeconds"
)

// These names describe Nodes without a kubelet.
const (
	// LabelNodeType is the type of a Node. If the value is NodeTypeVirtualKubelet, admission copies the label onto
	// requests.
	LabelNodeType = "type"
	// NodeTypeVirtualKubelet is the type of Nodes that have no agent to stop containers.
	NodeTypeVirtualKubelet = "virtual-kubelet"
)

// These names are for sidecars of Pods that run to completion.
const (
	// EnvTerminateSidecar marks a container as a sidecar if the value is "true", in upper or lower case: the controller
	// stops the container once the main containers have ended.
	EnvTerminateSidecar = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
	// EnvTerminateSidecarImage marks a sidecar of Pods on virtual Nodes. The value is an image whose program exits at
	// once. Once the main containers have ended, the controller sets this image in the container.
	EnvTerminateSidecarImage = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
	// EnvIgnoreExitCode, with the value "true" beside EnvTerminateSidecar, means that the container's exit code does
	// not make the Pod fail. Upper and lower case do not matter.
	EnvIgnoreExitCode = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
	// ConditionSidecarTerminated is True on a Pod whose phase the controller has set before the last sidecars had
	// ended.
	ConditionSidecarTerminated = "SidecarTerminated"
	// EventSidecarTerminator on a Pod names the sidecars that were stopped, and how they were stopped.
	EventSidecarTerminator = "SidecarTerminator"
)
