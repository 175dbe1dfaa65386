package inplaceupdate

import "github.com/workloadkit/workloadkit/reason"

// Why a change of template cannot be delivered in place.
const (
	// ImmutableField means a changed field that cannot change on a live Pod or is not delivered by the kit.
	ImmutableField reason.Code = "ImmutableField"
	// ContainersChanged means added, removed, renamed or reordered containers.
	ContainersChanged reason.Code = "ContainersChanged"
	// InitContainerImage means a changed image of a plain init container. The API server would accept the change, but the
	// container has run and never restarts, so the new image would have no effect.
	InitContainerImage reason.Code = "InitContainerImage"
	// ResizeDisabled means a change of cpu or memory while the configuration does not allow a resize.
	ResizeDisabled reason.Code = "ResizeDisabled"
	// ResourceNotResizable means a changed resource other than cpu and memory.
	ResourceNotResizable reason.Code = "ResourceNotResizable"
	// ResourceSetChanged means an added or removed request or limit. A resize only replaces existing values.
	ResourceSetChanged reason.Code = "ResourceSetChanged"
	// QOSClassWouldChange means new requests and limits with another QoS class for the Pod (KEP-1287).
	QOSClassWouldChange reason.Code = "QOSClassWouldChange"
	// RevisionMissing means an unknown revision: the Pod's own, for example after truncation of history, or the revision
	// to update to.
	RevisionMissing reason.Code = "RevisionMissing"
	// ReservedKey means a template with a label or annotation written on Pods by the operator itself. The template's value
	// has no effect.
	ReservedKey reason.Code = "ReservedKey"
	// OutsideTemplate means a difference between the revisions outside the Pod template.
	OutsideTemplate reason.Code = "OutsideTemplate"
)

// Why an update that has started is not complete.
const (
	// GracePeriodRunning means a Pod out of service before the end of its grace period. The spec changes at the end.
	GracePeriodRunning reason.Code = "GracePeriodRunning"
	// NotObserved means a node without knowledge of the Pod's newest spec.
	NotObserved reason.Code = "NotObserved"
	// ImageNotRunning means a container not known to run its new image yet.
	ImageNotRunning reason.Code = "ImageNotRunning"
	// EnvNotReported means no node agent's report of a container running with the new label or annotation.
	EnvNotReported reason.Code = "EnvNotReported"
	// ResizeNotDone means a container without the new cpu or memory from its node. The detail is the node's reason, if the
	// node reports a reason.
	ResizeNotDone reason.Code = "ResizeNotDone"
	// BatchNotReady means containers of a lower launch priority waiting for ready containers of a higher priority.
	BatchNotReady reason.Code = "BatchNotReady"
)

// Why a call returns an error. Codes beginning with Invalid are errors of the program.
const (
	// UnreadableState means a state or grace annotation outside the package's format. Leave the Pod alone until somebody
	// corrects or removes the annotation.
	UnreadableState reason.Code = "UnreadableState"
	// StateLost means removed or replaced annotations of a Pod during an update. The delivered part of the update is
	// unknown. Redo begins the update anew.
	StateLost reason.Code = "StateLost"
	// UpdateBlocked means a call of Start with an impossible plan, or an impossible plan for the given Pod. The error
	// wraps the reasons.
	UpdateBlocked reason.Code = "UpdateBlocked"
	// ContainerEnded means a container ended for good: its restart policy is Never, or OnFailure with a successful end.
	// Its image can change, but never runs.
	ContainerEnded reason.Code = "ContainerEnded"
	// InvalidConfig means an Updater with a missing required key, an invalid key name or a key with two uses, or an
	// Updater not made by New.
	InvalidConfig reason.Code = "InvalidConfig"
	// InvalidArgument means a call of an Updater without a plan, at the zero time, with a plan without a form in JSON,
	// with a target without revision or labels, with unreserved labels or with an impossible grace period.
	InvalidArgument reason.Code = "InvalidArgument"
)
