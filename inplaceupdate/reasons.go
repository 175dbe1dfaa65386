package inplaceupdate

import "github.com/workloadkit/workloadkit/reason"

// These are reasons why a change of template cannot be made in place.
const (
	// ImmutableField means that a changed field cannot be changed on a live Pod, or the kit does not support the change.
	ImmutableField reason.Code = "ImmutableField"
	// ContainersChanged means that the new template adds, removes, renames or reorders containers.
	ContainersChanged reason.Code = "ContainersChanged"
	// InitContainerImage means that the image of a plain init container changed. The API server would accept the
	// change, but the container has run already and never restarts, so the new image would have no effect.
	InitContainerImage reason.Code = "InitContainerImage"
	// ResizeDisabled means that cpu or memory changed and Config.AllowResize is false.
	ResizeDisabled reason.Code = "ResizeDisabled"
	// ResourceNotResizable means that a resource other than cpu or memory changed.
	ResourceNotResizable reason.Code = "ResourceNotResizable"
	// ResourceSetChanged means that a request or limit was added or removed. A resize can only change existing values.
	ResourceSetChanged reason.Code = "ResourceSetChanged"
	// QOSClassWouldChange means that the new requests and limits would give the Pod another QoS class (KEP-1287).
	QOSClassWouldChange reason.Code = "QOSClassWouldChange"
	// RevisionMissing means that the Pod's own revision or the revision of the update is unknown, for example because
	// old revisions were deleted.
	RevisionMissing reason.Code = "RevisionMissing"
	// ReservedKey means that a template has a label or annotation that the operator itself writes on Pods. The
	// template's value has no effect.
	ReservedKey reason.Code = "ReservedKey"
	// OutsideTemplate means that the revisions differ in more than the Pod template.
	OutsideTemplate reason.Code = "OutsideTemplate"
)

// These are reasons why an update that has started is not complete.
const (
	// GracePeriodRunning means that the Pod is out of service, and its spec will change at the end of the grace period.
	GracePeriodRunning reason.Code = "GracePeriodRunning"
	// NotObserved means that the kubelet has not observed the Pod's newest spec yet (status.observedGeneration).
	NotObserved reason.Code = "NotObserved"
	// ImageNotRunning means that a container is not known to run its new image yet.
	ImageNotRunning reason.Code = "ImageNotRunning"
	// EnvNotReported means that no node agent has reported that the container runs with the new value of a label or
	// annotation.
	EnvNotReported reason.Code = "EnvNotReported"
	// ResizeNotDone means that the node has not given a container the new cpu or memory. The detail is the node's
	// reason if the node has reported one.
	ResizeNotDone reason.Code = "ResizeNotDone"
	// StartNotProbed means that the kubelet reports a restarted container as started, perhaps because of the startup
	// probe of the previous instance. The Pod would be Ready with a container that has not started.
	StartNotProbed reason.Code = "StartNotProbed"
	// BatchNotReady means that containers of a lower launch priority wait until the updated containers of a higher
	// priority are ready.
	BatchNotReady reason.Code = "BatchNotReady"
)

// These are codes of returned errors. Codes beginning with Invalid mean a bug in the calling program.
const (
	// UnreadableState means that a state or grace annotation cannot be parsed. Do not update the Pod until somebody
	// corrects or removes the annotation.
	UnreadableState reason.Code = "UnreadableState"
	// StateLost means that somebody has removed or replaced the annotations of a Pod during its update. Nobody knows
	// which part of the update was delivered. Redo begins the update again.
	StateLost reason.Code = "StateLost"
	// UpdateBlocked means that Start was called with an impossible plan, or the plan is impossible for the given Pod.
	// The error wraps the reasons.
	UpdateBlocked reason.Code = "UpdateBlocked"
	// ContainerEnded means that a container has ended for good: its restart policy is Never, or is OnFailure and the
	// container has succeeded. The container's image can be changed, but the new image would never run.
	ContainerEnded reason.Code = "ContainerEnded"
	// InvalidConfig means that an Updater was not made by New, or its configuration lacks a required key, has an invalid
	// key name, or uses a key for two purposes.
	InvalidConfig reason.Code = "InvalidConfig"
	// InvalidArgument means that an Updater was called without a plan, with a zero time, with a plan that cannot be
	// encoded in JSON, with a target without revision or labels, with labels that are not reserved, or with a grace
	// period out of range.
	InvalidArgument reason.Code = "InvalidArgument"
)
