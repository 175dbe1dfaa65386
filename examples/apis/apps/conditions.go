package apps

// These are the Pod conditions that are also readiness gates.
const (
	// ConditionInPlaceUpdateReady is a readiness gate added by CloneSet to every Pod at creation. CloneSet writes the
	// condition: the status is False with ReasonStartInPlaceUpdate when an update starts, and True without reason and
	// message when the update is complete or the Pod has never been updated.
	ConditionInPlaceUpdateReady = "InPlaceUpdateReady"
	// ReasonStartInPlaceUpdate is the reason of ConditionInPlaceUpdateReady while an update runs.
	ReasonStartInPlaceUpdate = "StartInPlaceUpdate"
	// ReasonReadinessGatesNotReady is the reason of the Pod's Ready condition when Ready is False because of a
	// readiness gate.
	ReasonReadinessGatesNotReady = "ReadinessGatesNotReady"
	// ConditionKruisePodReady is a readiness gate that several writers share. Controllers add the gate to their Pods.
	// The message is a JSON list of the writers that keep the Pod not ready,
	// [{"userAgent":"Lifecycle","key":"preDeleteHook"}], sorted by userAgent, then by key. The list is "[]" if no
	// writer keeps the Pod not ready.
	ConditionKruisePodReady = "KruisePodReady"
	// NotReadyUserAgentLifecycle is the userAgent of lifecycle hooks in ConditionKruisePodReady.
	NotReadyUserAgentLifecycle = "Lifecycle"
	// NotReadyKeyPreDelete keeps a Pod not ready from PreparingDelete on, for a preDelete hook with markPodNotReady.
	NotReadyKeyPreDelete = "preDeleteHook"
	// NotReadyKeyPreUpdate keeps a Pod not ready from PreparingUpdate until Updated or Normal, for an inPlaceUpdate
	// hook with markPodNotReady.
	NotReadyKeyPreUpdate = "preUpdateHook"
)

// These are the condition types of a CloneSet, written by its controller.
const (
	// ConditionProgressing exists only while spec.progressDeadlineSeconds is set to a value below 2147483647.
	ConditionProgressing = "Progressing"
	// ConditionFailedScale is True with the error as message when scaling failed.
	ConditionFailedScale = "FailedScale"
	// ConditionFailedUpdate is True with the error as message when updating failed.
	ConditionFailedUpdate = "FailedUpdate"
	// ConditionInvalidSpec is True while the spec has invalid values. The reason is the code of the first invalid
	// value, and the message names paths and values. No Pod is changed while the condition is True.
	ConditionInvalidSpec = "InvalidSpec"
	// ConditionOddSpec is True while the spec has values that the controller may interpret in a way that the user does
	// not expect. The reason is the code of the first such value. The message names paths, values and interpretations.
	ConditionOddSpec = "OddSpec"
)

// These are the condition types of a StatefulSet and a DaemonSet, written by their controllers.
const (
	// ConditionFailedCreatePod is True with the error as message when a Pod could not be created.
	ConditionFailedCreatePod = "FailedCreatePod"
	// ConditionFailedUpdatePod is True with the error as message when a Pod could not be updated.
	ConditionFailedUpdatePod = "FailedUpdatePod"
	// ConditionWaiting is True while a cause outside the spec prevents Pods from being created, deleted or updated:
	// Pods that are unavailable or terminating, or Pods whose claims do not follow the present claim templates. The
	// reason is the code of the first cause. The message says what the cause is, and when the controller continues.
	ConditionWaiting = "Waiting"
)

// ConditionContainersRestarted exists on a workload with AnnotationRestartContainers. The condition is True when the
// containers of all Pods have restarted. The message names the progress and the obstacles. OpenKruise has no such
// condition.
const ConditionContainersRestarted = "ContainersRestarted"

// These are the reasons of ConditionProgressing, in the order in which the controller checks the reasons.
const (
	// ReasonProgressAvailable is used with the status True: every replica is updated and available.
	ReasonProgressAvailable = "CloneSetAvailable"
	// ReasonProgressPaused is used with the status True: the rollout is paused.
	ReasonProgressPaused = "CloneSetPaused"
	// ReasonProgressPartitionAvailable is used with the status True: all Pods that the partition allows to update are
	// updated and available.
	ReasonProgressPartitionAvailable = "ProgressPartitionAvailable"
	// ReasonProgressDeadlineExceeded is used with the status False: the deadline has passed. The message names the
	// update revision.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonProgressUpdated is used with the status True: the rollout is in progress.
	ReasonProgressUpdated = "CloneSetUpdated"
)

// These are events about an owner of Pods.
const (
	// EventSuccessfulCreate reports a created Pod.
	EventSuccessfulCreate = "SuccessfulCreate"
	// EventFailedCreate is a Warning: a Pod or claim could not be created.
	EventFailedCreate = "FailedCreate"
	// EventSuccessfulDelete reports a deleted Pod or claim.
	EventSuccessfulDelete = "SuccessfulDelete"
	// EventFailedDelete is a Warning: a Pod or claim could not be deleted.
	EventFailedDelete = "FailedDelete"
	// EventFailedUpdate is a Warning: the spec is invalid, or an update could not be continued.
	EventFailedUpdate = "FailedUpdate"
	// EventOrphansNotAdopted is a Warning of a CloneSet: Pods without a controller match the CloneSet's selector, but
	// the CloneSet adopts none of these Pods.
	EventOrphansNotAdopted = "OrphansNotAdopted"
	// EventScaleUpLimited is a Warning: Pods were not created yet, because of scaleStrategy.maxUnavailable.
	EventScaleUpLimited = "ScaleUpLimited"
	// EventSuccessfulUpdatePodInPlace reports a Pod whose in-place update started.
	EventSuccessfulUpdatePodInPlace = "SuccessfulUpdatePodInPlace"
	// EventFailedUpdatePodInPlace is a Warning: an in-place update could not start.
	EventFailedUpdatePodInPlace = "FailedUpdatePodInPlace"
	// EventSuccessfulUpdatePodReCreate reports a Pod that was marked for recreation.
	EventSuccessfulUpdatePodReCreate = "SuccessfulUpdatePodReCreate"
	// EventFailedUpdatePodReCreate is a Warning: a Pod could not be marked for recreation.
	EventFailedUpdatePodReCreate = "FailedUpdatePodReCreate"
	// EventSuccessfulResize says that the request to enlarge a claim was sent.
	EventSuccessfulResize = "SuccessfulResize"
	// EventFailedResize is a Warning: the request to enlarge a claim failed.
	EventFailedResize = "FailedResize"
	// EventFailedUpdateClaim is a Warning: a claim cannot be changed to the values of its template.
	EventFailedUpdateClaim = "FailedUpdatePVC"
	// EventSelectingAll is a Warning: the selector of a DaemonSet is empty and would select all Pods, so the controller
	// does nothing.
	EventSelectingAll = "SelectingAll"
	// EventRecreatingFailedPod is a Warning: a Pod of a StatefulSet has ended and was deleted, to be replaced.
	EventRecreatingFailedPod = "RecreatingFailedPod"
	// EventFailedDaemonPod is a Warning: a Pod of a DaemonSet has ended and was deleted, to be replaced.
	EventFailedDaemonPod = "FailedDaemonPod"
	// EventRestartingContainers says that containers of a Pod are being restarted in place, or that the restart has
	// ended.
	EventRestartingContainers = "RestartingContainers"
	// EventFailedRestartContainers is a Warning: containers of a Pod cannot be restarted in place.
	EventFailedRestartContainers = "FailedRestartContainers"
	// EventCreatedImagePullJob reports an ImagePullJob for a new revision; type Normal.
	EventCreatedImagePullJob = "CreatedImagePullJob"
	// EventFailedCreateImagePullJob reports that no ImagePullJob could be created.
	EventFailedCreateImagePullJob = "FailedCreateImagePullJob"
)
