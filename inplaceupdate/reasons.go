package inplaceupdate

import "github.com/workloadkit/workloadkit/reason"

// Why a change of template cannot be delivered in place.
const (
	// ImmutableField means that a changed field cannot change on a live Pod, or that the kit does not deliver such a
	// change.
	ImmutableField reason.Code = "ImmutableField"
	// ContainersChanged means that containers were added, removed, renamed or put in another order.
	ContainersChanged reason.Code = "ContainersChanged"
	// InitContainerImage means that the image of a plain init container changed. The API server would accept the
	// change, but the container has run and never restarts, so the new image would have no effect.
	InitContainerImage reason.Code = "InitContainerImage"
	// ResizeDisabled means that cpu or memory changed and the configuration does not allow a resize.
	ResizeDisabled reason.Code = "ResizeDisabled"
	// ResourceNotResizable means that a resource other than cpu and memory changed.
	ResourceNotResizable reason.Code = "ResourceNotResizable"
	// ResourceSetChanged means that a request or limit was added or removed. A resize only replaces existing values.
	ResourceSetChanged reason.Code = "ResourceSetChanged"
	// QOSClassWouldChange means that the new requests and limits would give the Pod another QoS class (KEP-1287).
	QOSClassWouldChange reason.Code = "QOSClassWouldChange"
	// RevisionMissing means that the Pod's own revision is unknown, for example because history was truncated, or the
	// revision to update to.
	RevisionMissing reason.Code = "RevisionMissing"
	// ReservedKey means that a template has a label or annotation written on Pods by the operator itself. The
	// template's value has no effect.
	ReservedKey reason.Code = "ReservedKey"
	// OutsideTemplate means that the revisions differ outside the Pod template.
	OutsideTemplate reason.Code = "OutsideTemplate"
)

// Why an update that has started is not complete.
const (
	// GracePeriodRunning means that the Pod is out of service and its spec changes at the end of the grace period.
	GracePeriodRunning reason.Code = "GracePeriodRunning"
	// NotObserved means that the node has not seen the Pod's newest spec yet.
	NotObserved reason.Code = "NotObserved"
	// ImageNotRunning means that a container is not known to run its new image yet.
	ImageNotRunning reason.Code = "ImageNotRunning"
	// EnvNotReported means that no node agent has reported the container as running with the new label or annotation.
	EnvNotReported reason.Code = "EnvNotReported"
	// ResizeNotDone means that the node has not given a container the new cpu or memory. The detail is the node's
	// reason, if the node reports a reason.
	ResizeNotDone reason.Code = "ResizeNotDone"
	// BatchNotReady means that containers of a lower launch priority wait for ready containers of a higher priority.
	BatchNotReady reason.Code = "BatchNotReady"
)

// Why a call returns an error. Codes beginning with Invalid are errors of the program.
const (
	// UnreadableState means that a state or grace annotation is not in the package's format. Leave the Pod alone until
	// somebody corrects or removes the annotation.
	UnreadableState reason.Code = "UnreadableState"
	// StateLost means that somebody has removed or replaced the annotations of a Pod during its update. The delivered
	// part of the update is unknown. Redo begins the update anew.
	StateLost reason.Code = "StateLost"
	// UpdateBlocked means that Start was called with an impossible plan, or with an impossible plan for the given Pod.
	// The error wraps the reasons.
	UpdateBlocked reason.Code = "UpdateBlocked"
	// ContainerEnded means that a container has ended for good: its restart policy is Never, or OnFailure with a
	// successful end. Its image can change, but never runs.
	ContainerEnded reason.Code = "ContainerEnded"
	// InvalidConfig means that an Updater lacks a required key, has an invalid key name or a key with two uses, or was
	// not made by New.
	InvalidConfig reason.Code = "InvalidConfig"
	// InvalidArgument means that an Updater was called without a plan, at the zero time, with a plan without a form in
	// JSON, with a target without revision or labels, with unreserved labels or with an impossible grace period.
	InvalidArgument reason.Code = "InvalidArgument"
)
