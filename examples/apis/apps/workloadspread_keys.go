package apps

// These are the keys of WorkloadSpreads.
const (
	// AnnotationMatchedWorkloadSpread on a Pod is JSON with the names of the Pod's WorkloadSpread and subset. If the
	// Pod had no name at admission, the JSON also contains a key with which the controller recognizes the Pod. The
	// value is written at admission, and by the controller on Pods older than the WorkloadSpread.
	AnnotationMatchedWorkloadSpread = "apps.kruise.io/matched-workloadspread"
	// AnnotationIgnoreExistingPodsMetadata on a WorkloadSpread, with the value "true", says that Pods older than the
	// WorkloadSpread do not get the labels and annotations of patches. The value is written by users.
	AnnotationIgnoreExistingPodsMetadata = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
)

// SubsetVersionIgnored is, in the status of a WorkloadSpread, the version of all Pods if the workload has no versions.
const SubsetVersionIgnored = "versionIgnored"

// These are the reasons of the condition Schedulable of a subset.
const (
	// SubsetPodUnschedulable says that a subset takes no new Pods, because Pods were unschedulable for too long.
	SubsetPodUnschedulable = "PodUnschedulable"
	// SubsetSufficient says that a subset takes new Pods.
	SubsetSufficient = "Sufficient"
)

// ConfigurationSpreadTargets is a key of the ConfigMap [ConfigurationName]. The value lists kinds of targets for
// WorkloadSpreads besides the built-in kinds.
const ConfigurationSpreadTargets = "WorkloadSpread_Watch_Custom_Workload_WhiteList"

// These are the events of WorkloadSpreads.
const (
	// EventCreatePodFailed says that a Pod was assigned to a subset at admission, but was not created.
	EventCreatePodFailed = "CreatePodFailed"
	// EventDeletePodFailed says that the deletion of a Pod was admitted, but the Pod was not deleted.
	EventDeletePodFailed = "DeletePodFailed"
	// EventDeleteStuckPodFailed says that an unschedulable Pod could not be deleted.
	EventDeleteStuckPodFailed = "DeleteStuckPodFailed"
	// EventRecoverSchedulable says that a subset with SubsetPodUnschedulable takes new Pods again.
	EventRecoverSchedulable = "RecoverSchedulable"
	// EventPatchPodDeletionCostFailed says that the deletion cost could not be written on a Pod.
	EventPatchPodDeletionCostFailed = "PatchPodDeletionCostFailed"
	// EventPatchPodFailed says that AnnotationMatchedWorkloadSpread could not be written on a Pod older than the
	// WorkloadSpread.
	EventPatchPodFailed = "PatchPodFailed"
	// EventInvalidWorkloadSpread says why the spec is invalid.
	EventInvalidWorkloadSpread = "InvalidWorkloadSpread"
	// EventSubsetChosen names the subset for the next Pods, and says why earlier subsets take no Pods.
	EventSubsetChosen = "SubsetChosen"
)
