package apps

// These are the keys on the workloads and Pods of a UnitedDeployment.
const (
	// LabelSubsetName is the name of the subset. The value is written by the controller on workloads, in the selectors
	// of workloads, and on Pods.
	LabelSubsetName = "apps.kruise.io/subset-name"
	// LabelSubsetRevision is the full name of the UnitedDeployment's revision ("web-7c9d5f8b6"). The value is written
	// by the controller on workloads and Pods.
	LabelSubsetRevision = "apps.kruise.io/controller-revision-hash"
	// LabelReservedPod on a Pod is "true" while a substitute for the Pod exists in another subset, and otherwise
	// "false". The value is written by the controller if
	// spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods is true.
	LabelReservedPod = "apps.kruise.io/united-deployment-reserved-pod"
	// AnnotationSubsetPatch on a workload is the subset's patch as JSON, or empty without a patch. The value is written
	// by the controller.
	AnnotationSubsetPatch = "apps.kruise.io/subset-patch"
)

// ReservedSubsetLabels returns the labels written by a UnitedDeployment. Templates must not contain these labels.
func ReservedSubsetLabels() []string {
	return []string{LabelSubsetName, LabelSubsetRevision, LabelReservedPod}
}

// These are the condition types of a UnitedDeployment, written by its controller.
const (
	// ConditionSubsetProvisioned is True after workloads of subsets were created or deleted, and False while creations
	// or deletions fail. The message of False is the error.
	ConditionSubsetProvisioned = "SubsetProvisioned"
	// ConditionSubsetUpdated is True once the workloads of all subsets follow the spec, and False while an update
	// fails. The message of False is the error.
	ConditionSubsetUpdated = "SubsetUpdated"
	// ConditionSubsetFailure is True while the workload of a subset reports failures.
	ConditionSubsetFailure = "SubsetFailure"
	// ConditionUnitedDeploymentUpdated is True if all Pods are ready at the newest revision, and otherwise False.
	ConditionUnitedDeploymentUpdated = "UnitedDeploymentUpdated"
	// ConditionReplicasLimited is True while no subset may have some of the replicas. The message names the limits.
	ConditionReplicasLimited = "ReplicasLimited"
)

// These are the reasons of the conditions of a UnitedDeployment.
const (
	// ReasonSubsetError is used with every condition that reports a failure.
	ReasonSubsetError = "Error"
	// ReasonRevisionUpdated is used when ConditionUnitedDeploymentUpdated is True.
	ReasonRevisionUpdated = "UnitedDeploymentRevisionUpdated"
	// ReasonRevisionUpdating is used when ConditionUnitedDeploymentUpdated is False.
	ReasonRevisionUpdating = "UnitedDeploymentRevisionUpdating"
	// ReasonSubsetsUpdating is used when ConditionUnitedDeploymentUpdated is False although the revision is the newest: the
	// Pods of a subset follow a change of the subset's patch, and some are not updated or not ready.
	ReasonSubsetsUpdating = "SubsetsUpdating"
	// ReasonNoSubsets is used when ConditionUnitedDeploymentUpdated is False because Pods are wanted and no subset exists.
	ReasonNoSubsets = "NoSubsets"
)

// These are the condition types of a subset of a UnitedDeployment.
const (
	// ConditionSubsetSchedulable is False while the subset gets no further Pods. The condition is used with the
	// strategy Adaptive.
	ConditionSubsetSchedulable = "Schedulable"
	// ConditionSubsetLimited is True while the limits of the subset allow fewer Pods than the subset should have. The
	// message names the limits and the remedies.
	ConditionSubsetLimited = "Limited"
)

// These are the reasons of ConditionSubsetSchedulable.
const (
	// ReasonSubsetReschedule is used when ConditionSubsetSchedulable is False because Pods could not be scheduled.
	ReasonSubsetReschedule = "reschedule"
	// ReasonSubsetRecover is used when ConditionSubsetSchedulable is True after False.
	ReasonSubsetRecover = "recover"
	// ReasonSubsetCreated is used when ConditionSubsetSchedulable is False because a subset was added to an existing
	// UnitedDeployment, and no Pod of the subset has been ready yet.
	ReasonSubsetCreated = "created"
)

// These are the events of a UnitedDeployment.
const (
	// EventFailedRevisionProvision is a Warning: the revision could not be written.
	EventFailedRevisionProvision = "FailedRevisionProvision"
	// EventFailedFindSubsets is a Warning: workloads could not be adopted or released.
	EventFailedFindSubsets = "FailedFindSubsets"
	// EventReleasedSubset is a Warning: workloads were released, because labels or the selector have changed.
	EventReleasedSubset = "ReleasedSubset"
	// EventFailedDeleteDuplicatedSubsets is a Warning: a subset has several workloads, and a surplus workload could not
	// be deleted.
	EventFailedDeleteDuplicatedSubsets = "FailedDeleteDuplicatedSubsets"
	// EventFailedSpecifySubsetReplicas is a Warning: the replicas cannot be divided among the subsets, so nothing is
	// changed.
	EventFailedSpecifySubsetReplicas = "Failed SpecifySubsetReplicas"
	// EventFailedUpdateSubset is a Warning: the workload of a subset could not be written.
	EventFailedUpdateSubset = "FailedUpdateSubset"
	// EventSuccessfulUpdateSubset says that workloads were created, updated or deleted.
	EventSuccessfulUpdateSubset = "SuccessfulUpdateSubset"
	// EventSubsetUnschedulable is a Warning: a subset gets no further Pods for a while.
	EventSubsetUnschedulable = "SubsetUnschedulable"
	// EventSubsetSchedulable says that a subset gets Pods again.
	EventSubsetSchedulable = "SubsetSchedulable"
	// EventReplicasLimited is a Warning: no subset may have some of the replicas. The message names the limits of each
	// subset.
	EventReplicasLimited = "ReplicasLimited"
	// EventInvalidUnitedDeployment is a Warning: the spec is invalid, and nothing is changed.
	EventInvalidUnitedDeployment = "InvalidUnitedDeployment"
)
