package apps

// Keys of ContainerRecreateRequest.
const (
	// LabelRequestPodUID is the UID of a request's Pod. Written by admission; immutable.
	LabelRequestPodUID = "crr.apps.kruise.io/pod-uid"
	// LabelRequestNodeName is the Pod's Node. The agent of a Node watches the requests with its own Node's name.
	// Written by admission; immutable.
	LabelRequestNodeName = "crr.apps.kruise.io/node-name"
	// LabelRequestActive is "true" until the request is completed. Written by admission, removed by the controller.
	LabelRequestActive = "crr.apps.kruise.io/active"
	// AnnotationRequestSyncContainerStatuses holds status.containerStatusSnapshot in v1alpha1. Written by the
	// controller and by conversion. Value: JSON such as
	// [{"name":"app","ready":true,"restartCount":3,"containerID":"containerd://ab12"}].
	AnnotationRequestSyncContainerStatuses = "crr.apps.kruise.io/sync-container-statuses"
	// AnnotationRequestUnreadyAcquired holds the transition time of ConditionPreRecreateGrace in v1alpha1. Written by
	// the controller and by conversion. Value: RFC 3339 in UTC.
	AnnotationRequestUnreadyAcquired = "crr.apps.kruise.io/unready-acquired"
	// FinalizerRequestUnreadyAcquired prevents the deletion of a request as long as the request keeps its Pod not
	// ready. Written and removed by the controller.
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

// Messages of requests completed by the controller.
const (
	// RequestPodGone says that the Pod was deleted, or that a new Pod has the name of the Pod.
	RequestPodGone = "pod has gone"
	// RequestPodEnded says that the Pod has ended, so its containers do not restart. OpenKruise has no such message.
	RequestPodEnded = "pod has ended"
	// RequestAgentSilent says that no agent has started to work on the request.
	RequestAgentSilent = "daemon has not responded for a long time"
	// RequestDeadlineExceeded says that the deadline has passed. Containers that were stopped before stay stopped or
	// restart.
	RequestDeadlineExceeded = "recreating has exceeded the activeDeadlineSeconds"
)

// The type of Nodes without a kubelet.
const (
	// LabelNodeType is the type of a Node. If the value is NodeTypeVirtualKubelet, admission copies the label onto
	// requests.
	LabelNodeType = "type"
	// NodeTypeVirtualKubelet is the type of Nodes that have no agent to stop containers.
	NodeTypeVirtualKubelet = "virtual-kubelet"
)

// Sidecars of Pods that run to completion.
const (
	// EnvTerminateSidecar, set to "true" on a container (upper and lower case do not matter), makes the controller stop
	// the container once the main containers have ended.
	EnvTerminateSidecar = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
	// EnvTerminateSidecarImage does the same for Pods on virtual Nodes. The value is an image whose program exits at
	// once: once the main containers have ended, the controller gives the container this image.
	EnvTerminateSidecarImage = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
	// EnvIgnoreExitCode, set to "true" beside EnvTerminateSidecar (upper and lower case do not matter), ensures that
	// the container's exit code does not make the Pod fail.
	EnvIgnoreExitCode = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
	// ConditionSidecarTerminated is True on a Pod whose phase the controller has set before the last sidecars had
	// ended.
	ConditionSidecarTerminated = "SidecarTerminated"
	// EventSidecarTerminator names, on a Pod, the stopped sidecars and how the sidecars are stopped.
	EventSidecarTerminator = "SidecarTerminator"
)
