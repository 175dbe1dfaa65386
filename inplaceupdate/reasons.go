package inplaceupdate

import "github.com/workloadkit/workloadkit/reason"

// Why a change of template cannot be delivered in place.
const (
	// ImmutableField means that a field changed that cannot change on a live Pod, or that this kit does not deliver.
	ImmutableField reason.Code = "ImmutableField"
	// ContainersChanged means that containers were added, removed, renamed or put in another order.
	ContainersChanged reason.Code = "ContainersChanged"
	// InitContainerImage means that the image of a plain init container changed. The API server would accept it, but
	// the container has run and never restarts, so the new image would have no effect.
	InitContainerImage reason.Code = "InitContainerImage"
	// ResizeDisabled means that cpu or memory changed and the configuration does not allow a resize.
	ResizeDisabled reason.Code = "ResizeDisabled"
	// ResourceNotResizable means that a resource other than cpu and memory changed.
	ResourceNotResizable reason.Code = "ResourceNotResizable"
	// ResourceSetChanged means that a request or limit was added or removed; a resize only replaces existing ones.
	ResourceSetChanged reason.Code = "ResourceSetChanged"
	// QOSClassWouldChange means that the new requests and limits would give the Pod another QoS class (KEP-1287).
	QOSClassWouldChange reason.Code = "QOSClassWouldChange"
	// RevisionMissing means that the Pod's own revision is unknown, for example because history was truncated, or that the
	// revision to update to is.
	RevisionMissing reason.Code = "RevisionMissing"
	// ReservedKey means that a template has a label or annotation that the operator itself writes on Pods. It has no effect.
	ReservedKey reason.Code = "ReservedKey"
	// OutsideTemplate means that the revisions differ in something other than the Pod template.
	OutsideTemplate reason.Code = "OutsideTemplate"
)

// Why an update that has started is not complete.
const (
	// GracePeriodRunning means that the Pod is out of service and its spec changes when the grace period ends.
	GracePeriodRunning reason.Code = "GracePeriodRunning"
	// NotObserved means that the node has not seen the Pod's newest spec yet.
	NotObserved reason.Code = "NotObserved"
	// ImageNotRunning means that a container is not known to run its new image yet.
	ImageNotRunning reason.Code = "ImageNotRunning"
	// EnvNotReported means that no node agent has reported that a container runs with the new label or annotation.
	EnvNotReported reason.Code = "EnvNotReported"
	// ResizeNotDone means that the node has not given a container the new cpu or memory. The detail is the node's reason, if it
	// reports one.
	ResizeNotDone reason.Code = "ResizeNotDone"
	// BatchNotReady means that containers of a lower launch priority wait for those of a higher one to become ready.
	BatchNotReady reason.Code = "BatchNotReady"
)

// Why a call returns an error. Those that begin with Invalid are errors of the program.
const (
	// UnreadableState means that a state or grace annotation is not what this package writes. The Pod must be left alone until
	// the annotation is corrected or removed.
	UnreadableState reason.Code = "UnreadableState"
	// StateLost means that somebody has removed or replaced the annotations of a Pod while it was updated: nobody knows what of
	// the update was delivered. Redo begins it anew.
	StateLost reason.Code = "StateLost"
	// UpdateBlocked means that Start was called with a plan that is not possible, or not for this Pod. The error wraps the reasons.
	UpdateBlocked reason.Code = "UpdateBlocked"
	// ContainerEnded means that a container has ended for good: its restart policy is Never, or OnFailure and it ended well. Its image
	// can be changed, but never runs.
	ContainerEnded reason.Code = "ContainerEnded"
	// InvalidConfig means that an Updater has a required key missing, a key that is no valid name or a key with two uses, or
	// that it was not made by New.
	InvalidConfig reason.Code = "InvalidConfig"
	// InvalidArgument means that an Updater was called without a plan, at the zero time, with a plan that cannot be written as
	// JSON, or with a target without revision or labels, with labels that are not reserved or with an impossible grace period.
	InvalidArgument reason.Code = "InvalidArgument"
)
