package apps

// Keys on the copies of a ResourceDistribution.
const (
	// AnnotationDistributedFrom is the name of a copy's ResourceDistribution. Written by the controller.
	AnnotationDistributedFrom = "kruise.io/resourcedistribution.resource.from"
	// AnnotationDistributedHash identifies the spec.resource of the copy's last write. Written by the controller.
	// Value: SHA-256 of the stored JSON of spec.resource, in lower-case hexadecimal digits.
	AnnotationDistributedHash = "kruise.io/resourcedistribution.resource.hashcode"
)

// Events of a ResourceDistribution, beside the events for failed creations, deletions and updates.
const (
	// EventNamespaceConflict says that a foreign object has the copy's name in a namespace.
	EventNamespaceConflict = "ConflictOccurred"
	// EventNamespaceNotExists says that a listed namespace does not exist, or is being deleted.
	EventNamespaceNotExists = "NamespaceNotExists"
	// EventSuccessfulUpdate says that copies were brought up to date.
	EventSuccessfulUpdate = "SuccessfulUpdate"
	// EventInvalidResourceDistribution says that a spec is invalid: its copies are left unchanged.
	EventInvalidResourceDistribution = "InvalidResourceDistribution"
)
