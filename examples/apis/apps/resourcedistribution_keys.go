package apps

// Keys on the copies of a ResourceDistribution.
const (
	// AnnotationDistributedFrom is the name of the ResourceDistribution that a copy belongs to. Written by the controller.
	AnnotationDistributedFrom = "kruise.io/resourcedistribution.resource.from"
	// AnnotationDistributedHash says which spec.resource a copy was last made from. Written by the controller. Value: SHA-256 of its JSON as it is
	// stored, in lower-case hexadecimal digits.
	AnnotationDistributedHash = "kruise.io/resourcedistribution.resource.hashcode"
)

// Events of a ResourceDistribution, beside those of creations, deletions and updates that fail.
const (
	// EventNamespaceConflict says that something else has the copy's name in a namespace.
	EventNamespaceConflict = "ConflictOccurred"
	// EventNamespaceNotExists says that a namespace which is listed does not exist, or is being deleted.
	EventNamespaceNotExists = "NamespaceNotExists"
	// EventSuccessfulUpdate says that copies were brought up to date.
	EventSuccessfulUpdate = "SuccessfulUpdate"
	// EventInvalidResourceDistribution says that a spec makes no sense: its copies are left as they are.
	EventInvalidResourceDistribution = "InvalidResourceDistribution"
)
