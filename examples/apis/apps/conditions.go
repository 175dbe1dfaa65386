package apps

// Pod conditions used also as readiness gates.
const (
	// ConditionInPlaceUpdateReady is a readiness gate added by CloneSet to every Pod at creation. Written by CloneSet:
	// False with ReasonStartInPlaceUpdate when an update starts, True without reason or message when the update is
	// finished or never began.
	ConditionInPlaceUpdateReady = "InPlaceUpdateReady"
	// ReasonStartInPlaceUpdate is the reason of ConditionInPlaceUpdateReady while an update runs.
	ReasonStartInPlaceUpdate = "StartInPlaceUpdate"
	// ReasonReadinessGatesNotReady is the reason of the Pod's Ready condition when a readiness gate holds Ready False.
	ReasonReadinessGatesNotReady = "ReadinessGatesNotReady"
	// ConditionKruisePodReady is a readiness gate with several writers. Controllers add the gate to their Pods. The
	// message is a JSON list of the holders, [{"userAgent":"Lifecycle","key":"preDeleteHook"}], sorted by userAgent
	// then key, and "[]" when released.
	ConditionKruisePodReady = "KruisePodReady"
	// NotReadyUserAgentLifecycle is the userAgent lifecycle hooks use in ConditionKruisePodReady.
	NotReadyUserAgentLifecycle = "Lifecycle"
	// NotReadyKeyPreDelete is held from PreparingDelete on, for a preDelete hook with markPodNotReady.
	NotReadyKeyPreDelete = "preDeleteHook"
	// NotReadyKeyPreUpdate is held from PreparingUpdate until Updated or Normal, for an inPlaceUpdate hook with
	// markPodNotReady.
	NotReadyKeyPreUpdate = "preUpdateHook"
)

// Condition types of a CloneSet, written by its controller.
const (
	// ConditionProgressing exists only while spec.progressDeadlineSeconds is set and not 2147483647.
	ConditionProgressing = "Progressing"
	// ConditionFailedScale is True with the error as message when scaling failed.
	ConditionFailedScale = "FailedScale"
	// ConditionFailedUpdate is True with the error as message when updating failed.
	ConditionFailedUpdate = "FailedUpdate"
	// ConditionInvalidSpec is True while the spec holds unusable values. The reason is the first code, and the message
	// names paths and values. No Pod is touched meanwhile.
	ConditionInvalidSpec = "InvalidSpec"
	// ConditionOddSpec is True while the controller may read values of the spec in an unintended way. The reason is the
	// first code, and the message names paths, values and their reading.
	ConditionOddSpec = "OddSpec"
)

// Condition types of a StatefulSet and a DaemonSet, written by their controllers.
const (
	// ConditionFailedCreatePod is True with the error as message when a Pod could not be created.
	ConditionFailedCreatePod = "FailedCreatePod"
	// ConditionFailedUpdatePod is True with the error as message when a Pod could not be updated.
	ConditionFailedUpdatePod = "FailedUpdatePod"
	// ConditionWaiting is True while an obstacle outside the spec keeps Pods from being created, deleted or updated:
	// Pods that are not available or terminate, or Pods without claims of today's templates. The reason is the first
	// code. The message names the obstacle and its end.
	ConditionWaiting = "Waiting"
)

// ConditionContainersRestarted exists on a workload with AnnotationRestartContainers: True when the containers of all
// Pods have restarted. The message has the progress, and the obstacles. OpenKruise has no such condition.
const ConditionContainersRestarted = "ContainersRestarted"

// Reasons of ConditionProgressing, in the order of their tests.
const (
	// ReasonProgressAvailable goes with True: every replica is updated and available.
	ReasonProgressAvailable = "CloneSetAvailable"
	// ReasonProgressPaused goes with True: the rollout is paused.
	ReasonProgressPaused = "CloneSetPaused"
	// ReasonProgressPartitionAvailable goes with True: everything the partition allows is updated and available.
	ReasonProgressPartitionAvailable = "ProgressPartitionAvailable"
	// ReasonProgressDeadlineExceeded goes with False: the deadline passed. The message names the update revision.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonProgressUpdated goes with True: the rollout is under way.
	ReasonProgressUpdated = "CloneSetUpdated"
)

// Events on an owner of Pods.
const (
	// EventSuccessfulCreate reports a created Pod.
	EventSuccessfulCreate = "SuccessfulCreate"
	// EventFailedCreate is a Warning: a Pod or claim could not be created.
	EventFailedCreate = "FailedCreate"
	// EventSuccessfulDelete reports a deleted Pod or claim.
	EventSuccessfulDelete = "SuccessfulDelete"
	// EventFailedDelete is a Warning: a Pod or claim could not be deleted.
	EventFailedDelete = "FailedDelete"
	// EventFailedUpdate is a Warning: a claim could not be handed over.
	EventFailedUpdate = "FailedUpdate"
	// EventOrphansNotAdopted is a Warning of a CloneSet: Pods without a controller match its selector, and the CloneSet
	// adopts none.
	EventOrphansNotAdopted = "OrphansNotAdopted"
	// EventScaleUpLimited is a Warning: scaleStrategy.maxUnavailable held back creations.
	EventScaleUpLimited = "ScaleUpLimited"
	// EventSuccessfulUpdatePodInPlace reports a Pod whose in-place update started.
	EventSuccessfulUpdatePodInPlace = "SuccessfulUpdatePodInPlace"
	// EventFailedUpdatePodInPlace is a Warning: an in-place update could not start.
	EventFailedUpdatePodInPlace = "FailedUpdatePodInPlace"
	// EventSuccessfulUpdatePodReCreate reports a Pod marked for recreation.
	EventSuccessfulUpdatePodReCreate = "SuccessfulUpdatePodReCreate"
	// EventFailedUpdatePodReCreate is a Warning: a Pod could not be marked for recreation.
	EventFailedUpdatePodReCreate = "FailedUpdatePodReCreate"
	// EventSuccessfulResize reports a claim after a request to grow.
	EventSuccessfulResize = "SuccessfulResize"
	// EventFailedResize is a Warning: the request to grow a claim failed.
	EventFailedResize = "FailedResize"
	// EventFailedUpdateClaim is a Warning: a claim cannot take its template's values.
	EventFailedUpdateClaim = "FailedUpdatePVC"
	// EventSelectingAll is a Warning: the selector of a DaemonSet is empty, and nothing is done.
	EventSelectingAll = "SelectingAll"
	// EventRecreatingFailedPod is a Warning: a Pod of a StatefulSet has ended, and was deleted for a replacement.
	EventRecreatingFailedPod = "RecreatingFailedPod"
	// EventFailedDaemonPod is a Warning: a Pod of a DaemonSet has ended, and was deleted for a replacement.
	EventFailedDaemonPod = "FailedDaemonPod"
	// EventRestartingContainers reports a Pod whose containers are asked to restart in place, and the end of a restart.
	EventRestartingContainers = "RestartingContainers"
	// EventFailedRestartContainers is a Warning: containers of a Pod cannot be restarted in place.
	EventFailedRestartContainers = "FailedRestartContainers"
	// EventCreatedImagePullJob reports an image job for a new revision; type Normal.
	EventCreatedImagePullJob = "CreatedImagePullJob"
	// EventFailedCreateImagePullJob reports that no image job could be created; type Normal as well.
	EventFailedCreateImagePullJob = "FailedCreateImagePullJob"
)
