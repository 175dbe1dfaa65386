package apps

// These are the keys on the copies of a ResourceDistribution.
const (
	// AnnotationDistributedFrom is, on a copy, the name of the ResourceDistribution. The value is written by the
	// controller.
	AnnotationDistributedFrom = "kruise.io/resourcedistribution.resource.from"
	// AnnotationDistributedHash is, on a copy, a hash of the spec.resource from which the copy was last written. The
	// value is written by the controller. Value: SHA-256 of the stored JSON of spec.resource, in lower-case hexadecimal
	// digits.
	AnnotationDistributedHash = "kruise.io/resourcedistribution.resource.hashcode"
)

// These are the events of a ResourceDistribution, beside the events for failed creations, deletions and updates.
const (
	// EventNamespaceConflict says that in a namespace an object that is not a copy has the copy's name.
	EventNamespaceConflict = "ConflictOccurred"
	// EventNamespaceNotExists says that a listed namespace does not exist, or is being deleted.
	EventNamespaceNotExists = "NamespaceNotExists"
	// EventSuccessfulUpdate says that copies were updated.
	EventSuccessfulUpdate = "SuccessfulUpdate"
	// EventInvalidResourceDistribution says that a spec is invalid, so the copies stay unchanged.
	EventInvalidResourceDistribution = "InvalidResourceDistribution"
)
