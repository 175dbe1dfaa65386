package cause

import "github.com/workloadkit/workloadkit/reason"

// These are the codes of causes that have no code elsewhere. Further causes have the code of a condition, of a
// container's state or of an event.
const (
	// SpecUnobserved means: no controller has seen the present spec, because the manager does not run or is slow.
	SpecUnobserved reason.Code = "SpecUnobserved"
	// Paused means: a user has paused the rollout or the job.
	Paused reason.Code = "Paused"
	// PartitionReached means: the partition keeps all Pods of the old revision.
	PartitionReached reason.Code = "PartitionReached"
	// OnDelete means: the update strategy updates a Pod only after a user has deleted the Pod.
	OnDelete reason.Code = "OnDelete"
	// QuotaExceeded means: a ResourceQuota refuses Pods.
	QuotaExceeded reason.Code = "QuotaExceeded"
	// WebhookRefused means: an admission webhook or policy refuses a request.
	WebhookRefused reason.Code = "WebhookRefused"
	// WebhookUnreachable means: an admission webhook does not respond, so the API server refuses a request.
	WebhookUnreachable reason.Code = "WebhookUnreachable"
	// RequestRefused means: the API server itself refuses a request.
	RequestRefused reason.Code = "RequestRefused"
	// RightsMissing means: the manager's account lacks a right.
	RightsMissing reason.Code = "RightsMissing"
	// NotScheduled means: no scheduler has handled a Pod yet.
	NotScheduled reason.Code = "NotScheduled"
	// NodeNotReady means: the kubelet of a Node does not report, or reports that the Node is not ready.
	NodeNotReady reason.Code = "NodeNotReady"
	// NodeGone means: the Node of a Pod does not exist.
	NodeGone reason.Code = "NodeGone"
	// NotReady means: a container runs, and the readiness probe has not succeeded.
	NotReady reason.Code = "NotReady"
	// NotStarted means: the kubelet or the node agent has not begun with a Pod yet.
	NotStarted reason.Code = "NotStarted"
	// Pulling means: Nodes are pulling an image.
	Pulling reason.Code = "Pulling"
	// LaunchPriority means: a container waits for containers of a higher priority.
	LaunchPriority reason.Code = "LaunchPriority"
	// HookHolds means: a Pod waits for the holder of a lifecycle hook.
	HookHolds reason.Code = "HookHolds"
	// GateHolds means: a readiness gate keeps a Pod from being ready.
	GateHolds reason.Code = "GateHolds"
	// FinalizerHolds means: a finalizer delays the deletion of an object.
	FinalizerHolds reason.Code = "FinalizerHolds"
	// Terminating means: a Pod is being deleted and stops within its grace period.
	Terminating reason.Code = "Terminating"
	// NotUpdated means: a Pod is at an old revision.
	NotUpdated reason.Code = "NotUpdated"
	// NotInjected means: a SidecarSet selects a Pod without the sidecars.
	NotInjected reason.Code = "NotInjected"
	// EvictionRefused means: a budget refuses evictions of a Pod.
	EvictionRefused reason.Code = "EvictionRefused"
	// JobNotEnded means: a job runs, and no cause of a delay is known.
	JobNotEnded reason.Code = "JobNotEnded"
	// PodsMissing means: fewer Pods exist than wanted, for an unknown cause.
	PodsMissing reason.Code = "PodsMissing"
)
