package apps

// Keys of WorkloadSpreads.
const (
	// AnnotationMatchedWorkloadSpread on a Pod is JSON with the name of the Pod's WorkloadSpread, the name of the Pod's
	// subset, and for a Pod admitted without a name the key of its place. Written at admission, and by the controller on
	// Pods that existed before.
	AnnotationMatchedWorkloadSpread = "apps.kruise.io/matched-workloadspread"
	// AnnotationIgnoreExistingPodsMetadata on a WorkloadSpread, with the value "true", keeps the labels and annotations of
	// patches from Pods that existed before. Written by users.
	AnnotationIgnoreExistingPodsMetadata = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
)

// SubsetVersionIgnored stands for the version of Pods of workloads without versions, in the status of a WorkloadSpread.
const SubsetVersionIgnored = "versionIgnored"

// Reasons of the condition Schedulable of a subset.
const (
	// SubsetPodUnschedulable closes a subset: Pods were unschedulable for too long.
	SubsetPodUnschedulable = "PodUnschedulable"
	// SubsetSufficient says that a subset takes new Pods.
	SubsetSufficient = "Sufficient"
)

// ConfigurationSpreadTargets is the key of the ConfigMap [ConfigurationName] with further kinds of targets for
// WorkloadSpreads.
const ConfigurationSpreadTargets = "WorkloadSpread_Watch_Custom_Workload_WhiteList"

// Events of WorkloadSpreads.
const (
	// EventCreatePodFailed: a Pod with a place did not come.
	EventCreatePodFailed = "CreatePodFailed"
	// EventDeletePodFailed: a Pod let go did not go.
	EventDeletePodFailed = "DeletePodFailed"
	// EventDeleteStuckPodFailed: an unschedulable Pod could not be deleted.
	EventDeleteStuckPodFailed = "DeleteStuckPodFailed"
	// EventRecoverSchedulable: a closed subset takes Pods again.
	EventRecoverSchedulable = "RecoverSchedulable"
	// EventPatchPodDeletionCostFailed: a deletion cost could not be written.
	EventPatchPodDeletionCostFailed = "PatchPodDeletionCostFailed"
	// EventPatchPodFailed: a Pod older than the WorkloadSpread could not be marked.
	EventPatchPodFailed = "PatchPodFailed"
	// EventInvalidWorkloadSpread says what is wrong with the spec.
	EventInvalidWorkloadSpread = "InvalidWorkloadSpread"
	// EventSubsetChosen says where further Pods go, and why to no earlier subset.
	EventSubsetChosen = "SubsetChosen"
)
