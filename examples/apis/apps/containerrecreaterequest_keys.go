package apps

// Keys of ContainerRecreateRequest.
const (
	// LabelRequestPodUID is the UID of a request's Pod. Written by admission; immutable.
	LabelRequestPodUID = "crr.apps.kruise.io/pod-uid"
	// LabelRequestNodeName is the Pod's Node: node agents look for their own name. Written by admission; immutable.
	LabelRequestNodeName = "crr.apps.kruise.io/node-name"
	// LabelRequestActive is "true" until the request is completed. Written by admission, removed by the controller.
	LabelRequestActive = "crr.apps.kruise.io/active"
	// AnnotationRequestSyncContainerStatuses is v1alpha1's spelling of status.containerStatusSnapshot. Written by the
	// controller and by conversion. Value: JSON such as
	// [{"name":"app","ready":true,"restartCount":3,"containerID":"containerd://ab12"}].
	AnnotationRequestSyncContainerStatuses = "crr.apps.kruise.io/sync-container-statuses"
	// AnnotationRequestUnreadyAcquired is v1alpha1's spelling of the transition time of ConditionPreRecreateGrace.
	// Written by the controller and by conversion. Value: RFC 3339 in UTC.
	AnnotationRequestUnreadyAcquired = "crr.apps.kruise.io/unready-acquired"
	// FinalizerRequestUnreadyAcquired keeps a request while the request keeps its Pod not ready. Written and removed by
	// the controller.
	FinalizerRequestUnreadyAcquired = "crr.apps.kruise.io/unready-acquired"
	// ConditionPreRecreateGrace is True on a request whose Pod was made not ready, since the transition time. The
	// condition's reason has the same name.
	ConditionPreRecreateGrace = "PreRecreateGrace"
	// NotReadyUserAgentRequest is the userAgent of requests in ConditionKruisePodReady. The key has namespace and name of
	// the request.
	NotReadyUserAgentRequest = "ContainerRecreateRequest"
	// EventInvalidContainerRecreateRequest is a Warning: the spec makes no sense, and the request is completed.
	EventInvalidContainerRecreateRequest = "InvalidContainerRecreateRequest"
	// EventRequestCompleted says why the controller has completed a request: a Warning, unless the Pod is gone or has
	// ended.
	EventRequestCompleted = "CompletedEarly"
	// EventFailedUnready is a Warning: the request's Pod could not be made not ready, or ready again.
	EventFailedUnready = "FailedUnready"
)

// Messages of requests completed by the controller.
const (
	// RequestPodGone says that the Pod was deleted, or that another Pod has its name.
	RequestPodGone = "pod has gone"
	// RequestPodEnded says that the Pod has ended, and restarts no container. OpenKruise has no such message.
	RequestPodEnded = "pod has ended"
	// RequestAgentSilent says that no agent has taken the request up.
	RequestAgentSilent = "daemon has not responded for a long time"
	// RequestDeadlineExceeded says that the request took longer than allowed. Stopped containers stay stopped or
	// restarted.
	RequestDeadlineExceeded = "recreating has exceeded the activeDeadlineSeconds"
)

// Nodes without a kubelet.
const (
	// LabelNodeType is the type of a Node. Admission copies the value NodeTypeVirtualKubelet onto requests.
	LabelNodeType = "type"
	// NodeTypeVirtualKubelet is the type of Nodes without an agent to stop containers.
	NodeTypeVirtualKubelet = "virtual-kubelet"
)

// Sidecars of Pods that run to completion.
const (
	// EnvTerminateSidecar set to "true", in any case, on a container makes the controller stop the container when the
	// main containers have ended.
	EnvTerminateSidecar = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
	// EnvTerminateSidecarImage is the same for virtual Nodes: the value is an image that exits at once, and the
	// container gets the image.
	EnvTerminateSidecarImage = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
	// EnvIgnoreExitCode set to "true", in any case, beside EnvTerminateSidecar keeps the container's exit code from
	// failing the Pod.
	EnvIgnoreExitCode = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
	// ConditionSidecarTerminated is True on a Pod whose phase was set before its last sidecars had ended.
	ConditionSidecarTerminated = "SidecarTerminated"
	// EventSidecarTerminator reports on a Pod the stopped sidecars, and how they are stopped.
	EventSidecarTerminator = "SidecarTerminator"
)
