package apps

// Keys on the workloads and Pods of a UnitedDeployment.
const (
	// LabelSubsetName is the name of the subset. Written by the controller on workloads, in their selectors and on
	// Pods.
	LabelSubsetName = "apps.kruise.io/subset-name"
	// LabelSubsetRevision is the full name of the UnitedDeployment's revision ("web-7c9d5f8b6"). Written by the
	// controller on workloads and Pods.
	LabelSubsetRevision = "apps.kruise.io/controller-revision-hash"
	// LabelReservedPod on a Pod is "true" while the Pod has a substitute in another subset, and otherwise "false".
	// Written by the controller with reserveUnschedulablePods.
	LabelReservedPod = "apps.kruise.io/united-deployment-reserved-pod"
	// AnnotationSubsetPatch on a workload is the subset's patch as JSON, empty for none. Written by the controller.
	AnnotationSubsetPatch = "apps.kruise.io/subset-patch"
)

// ReservedSubsetLabels returns the labels written by a UnitedDeployment. Templates must leave the labels alone.
func ReservedSubsetLabels() []string {
	return []string{LabelSubsetName, LabelSubsetRevision, LabelReservedPod}
}

// Condition types of a UnitedDeployment, written by its controller.
const (
	// ConditionSubsetProvisioned is True after workloads of subsets were created or deleted, and False with the error
	// while that fails.
	ConditionSubsetProvisioned = "SubsetProvisioned"
	// ConditionSubsetUpdated is True after the workloads of all subsets follow the spec, and False with the error while
	// an update fails.
	ConditionSubsetUpdated = "SubsetUpdated"
	// ConditionSubsetFailure is True while the workload of a subset reports failures.
	ConditionSubsetFailure = "SubsetFailure"
	// ConditionUnitedDeploymentUpdated is True when all Pods are ready at the newest revision, and otherwise False.
	ConditionUnitedDeploymentUpdated = "UnitedDeploymentUpdated"
	// ConditionReplicasLimited is True while replicas have no place in any subset. The message names the limits.
	ConditionReplicasLimited = "ReplicasLimited"
)

// Reasons of the conditions of a UnitedDeployment.
const (
	// ReasonSubsetError goes with the failures.
	ReasonSubsetError = "Error"
	// ReasonRevisionUpdated goes with True of ConditionUnitedDeploymentUpdated.
	ReasonRevisionUpdated = "UnitedDeploymentRevisionUpdated"
	// ReasonRevisionUpdating goes with False of ConditionUnitedDeploymentUpdated.
	ReasonRevisionUpdating = "UnitedDeploymentRevisionUpdating"
)

// Condition types of a subset of a UnitedDeployment.
const (
	// ConditionSubsetSchedulable is False while the subset gets no further Pods, with type Adaptive.
	ConditionSubsetSchedulable = "Schedulable"
	// ConditionSubsetLimited is True while the subset wanted more Pods than it may have. The message names the limits
	// and the remedies.
	ConditionSubsetLimited = "Limited"
)

// Reasons of ConditionSubsetSchedulable.
const (
	// ReasonSubsetReschedule goes with False: Pods could not be scheduled.
	ReasonSubsetReschedule = "reschedule"
	// ReasonSubsetRecover goes with True, after False.
	ReasonSubsetRecover = "recover"
	// ReasonSubsetCreated goes with False: a subset that is new in an existing UnitedDeployment has to prove itself.
	ReasonSubsetCreated = "created"
)

// Events of a UnitedDeployment.
const (
	// EventFailedRevisionProvision is a Warning: the revision could not be written.
	EventFailedRevisionProvision = "FailedRevisionProvision"
	// EventFailedFindSubsets is a Warning: workloads could not be adopted or released.
	EventFailedFindSubsets = "FailedFindSubsets"
	// EventReleasedSubset is a Warning: workloads were given up, because labels or the selector have changed.
	EventReleasedSubset = "ReleasedSubset"
	// EventFailedDeleteDuplicatedSubsets is a Warning: further workloads of a subset could not be deleted.
	EventFailedDeleteDuplicatedSubsets = "FailedDeleteDuplicatedSubsets"
	// EventFailedSpecifySubsetReplicas is a Warning: the replicas cannot be divided. Nothing is changed.
	EventFailedSpecifySubsetReplicas = "Failed SpecifySubsetReplicas"
	// EventFailedUpdateSubset is a Warning: the workload of a subset could not be written.
	EventFailedUpdateSubset = "FailedUpdateSubset"
	// EventSuccessfulUpdateSubset reports workloads that were created, updated or deleted.
	EventSuccessfulUpdateSubset = "SuccessfulUpdateSubset"
	// EventSubsetUnschedulable is a Warning: a subset gets no further Pods for a while.
	EventSubsetUnschedulable = "SubsetUnschedulable"
	// EventSubsetSchedulable says that a subset gets Pods again.
	EventSubsetSchedulable = "SubsetSchedulable"
	// EventReplicasLimited is a Warning: replicas have no place. The message names the limits of each subset.
	EventReplicasLimited = "ReplicasLimited"
	// EventInvalidUnitedDeployment is a Warning: the spec is invalid, and nothing is changed.
	EventInvalidUnitedDeployment = "InvalidUnitedDeployment"
)
