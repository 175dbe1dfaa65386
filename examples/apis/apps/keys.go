package apps

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Group is the API group of the workloads.
const Group = "apps.kruise.io"

// Annotations on ControllerRevisions that this project adds to those of OpenKruise.
const (
	// AnnotationHashVersion marks revisions hashed by this project's recipes.
	AnnotationHashVersion = "workloadkit.io/hash-version"
	// AnnotationClaimTemplates holds the claim templates of a revision's Pods.
	AnnotationClaimTemplates = "workloadkit.io/claim-templates"
)

// AnnotationRestartContainers asks a CloneSet, StatefulSet or DaemonSet to restart containers of its Pods in place,
// within the budget of updates. Written by users, and copied to the ContainerRecreateRequests. Value: an RFC 3339 time,
// then the names of containers, none for all, separated by spaces ("2026-03-01T12:00:00Z app log"). A container started
// at the time or later needs no restart. OpenKruise has no such annotation.
const AnnotationRestartContainers = "workloadkit.io/restart-containers"

// Labels on Pods.
const (
	// LabelRevision is a Pod's revision. Written by the owner at creation and at the START of an in-place update.
	// Value: the full ControllerRevision name ("web-7d9f8c6b5d"), or the bare hash with gate CloneSetShortHash; both
	// spellings of a revision are equal.
	LabelRevision = "controller-revision-hash"
	// LabelPodTemplateHash is the bare hash of the revision ("7d9f8c6b5d"), always in the short form. Written by
	// CloneSet at creation, at an in-place update, and when found missing.
	LabelPodTemplateHash = "pod-template-hash"
	// LabelInstanceID ties a Pod to its claims. Written by CloneSet on Pods and on their claims at creation. Value:
	// five characters of the safe alphabet ("x7k2p"), also the suffix of the Pod's name.
	LabelInstanceID = "apps.kruise.io/cloneset-instance-id"
	// LabelPodName is the name of the Pod. Written by StatefulSet at creation.
	LabelPodName = "statefulset.kubernetes.io/pod-name"
	// LabelPodIndex is the Pod's number in decimal ("3"). Written by StatefulSet at creation with gate PodIndexLabel.
	LabelPodIndex = "apps.kubernetes.io/pod-index"
	// LabelSpecifiedDelete asks the owner to delete this Pod within its budget. Written by users, and by
	// CloneSet for a recreate update. Presence counts; CloneSet writes "true".
	LabelSpecifiedDelete = "apps.kruise.io/specified-delete"
	// LabelLifecycleState is the state of the lifecycle hooks (1.4). Written by the owner. Value: one of the
	// Lifecycle constants; absent or empty counts as Normal.
	LabelLifecycleState = "lifecycle.apps.kruise.io/state"
	// LabelUnavailablePrefix starts labels of any suffix and value with which users declare a Pod unavailable. Only
	// PodUnavailableBudget reads such labels; CloneSet does not.
	LabelUnavailablePrefix = "unavailable-pod.kruise.io/"
)

// Values of LabelLifecycleState.
const (
	// LifecyclePreparingNormal waits for the preNormal hook, or without one for a node.
	LifecyclePreparingNormal = "PreparingNormal"
	// LifecycleNormal is the only non-empty state in which a Pod can be available.
	LifecycleNormal = "Normal"
	// LifecyclePreparingUpdate waits for the inPlaceUpdate hook before an update.
	LifecyclePreparingUpdate = "PreparingUpdate"
	// LifecycleUpdating is set in the write that starts an in-place update.
	LifecycleUpdating = "Updating"
	// LifecycleUpdated waits for the inPlaceUpdate hook after an update.
	LifecycleUpdated = "Updated"
	// LifecyclePreparingDelete waits for the preDelete hook.
	LifecyclePreparingDelete = "PreparingDelete"
)

// Annotations on Pods.
const (
	// AnnotationLifecycleTimestamp is the time of the last state change, RFC 3339 in UTC
	// ("2026-07-01T10:00:00Z"). Written by the owner together with LabelLifecycleState.
	AnnotationLifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"
	// AnnotationInPlaceUpdateState is the progress of an in-place update. Written by the owner. Value: JSON of 1.2,
	// always with revision, updateTimestamp and lastContainerStatuses.
	AnnotationInPlaceUpdateState = "apps.kruise.io/inplace-update-state"
	// AnnotationInPlaceUpdateGrace holds the change waiting for the end of the grace period. Written and removed by the
	// owner. Value: JSON of 1.2.
	AnnotationInPlaceUpdateGrace = "apps.kruise.io/inplace-update-grace"
	// AnnotationInPlaceUpdateStateLegacy is the earlier name of AnnotationInPlaceUpdateState. Read as a fallback,
	// removed on write, never written.
	AnnotationInPlaceUpdateStateLegacy = "inplace-update-state"
	// AnnotationInPlaceUpdateGraceLegacy is the earlier name of AnnotationInPlaceUpdateGrace. Read as a fallback,
	// removed on write, never written.
	AnnotationInPlaceUpdateGraceLegacy = "inplace-update-grace"
	// AnnotationRuntimeContainersMeta lists container ids with their hashes. Written by the node daemon, read when an
	// update is checked for completion. Value: JSON of 1.2.
	AnnotationRuntimeContainersMeta = "apps.kruise.io/runtime-containers-meta"
	// AnnotationPodDeletionCost ranks Pods for scale-in, lower first. Written by users. Value: int32 in
	// decimal without plus sign or leading zeros; missing or unreadable counts as 0.
	AnnotationPodDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
)

// ReservedPodLabels returns the labels written by a CloneSet on its Pods. Templates must leave the labels alone.
func ReservedPodLabels() []string {
	return []string{LabelRevision, LabelPodTemplateHash, LabelInstanceID, LabelSpecifiedDelete, LabelLifecycleState}
}

// ReservedStatefulSetLabels returns the labels written by a StatefulSet on its Pods. Templates must leave the labels
// alone.
func ReservedStatefulSetLabels() []string {
	return []string{LabelRevision, LabelPodName, LabelPodIndex, LabelSpecifiedDelete, LabelLifecycleState}
}

// KeyIn returns a label of the list used by a selector, or "" if the selector uses none. A selector must not use labels
// written by its owner: the owner creates Pods with such labels and changes the labels, so that a Pod selected today is
// released tomorrow.
func KeyIn(selector *metav1.LabelSelector, labels []string) string {
	if selector == nil {
		return ""
	}
	for _, key := range labels {
		if _, ok := selector.MatchLabels[key]; ok {
			return key
		}
		for i := range selector.MatchExpressions {
			if selector.MatchExpressions[i].Key == key {
				return key
			}
		}
	}
	return ""
}

// ReservedPodAnnotations returns the annotations written by owners and node agents on Pods. Templates must leave the
// annotations alone.
func ReservedPodAnnotations() []string {
	return []string{
		AnnotationLifecycleTimestamp, AnnotationInPlaceUpdateState, AnnotationInPlaceUpdateGrace,
		AnnotationInPlaceUpdateStateLegacy, AnnotationInPlaceUpdateGraceLegacy, AnnotationRuntimeContainersMeta,
	}
}

// Keys on ControllerRevisions. CloneSet also copies all labels of spec.template.metadata.labels and, at creation, all
// annotations of the CloneSet onto its revisions.
const (
	// LabelRevisionHash is the hash that ends the revision's name. Written by CloneSet at creation.
	LabelRevisionHash = "controller.kubernetes.io/hash"
	// LabelPreDownloadCreated is "true" once image jobs exist for the revision. Written by CloneSet. The doubled "pre"
	// belongs to the key.
	LabelPreDownloadCreated = "apps.kruise.io/pre-predownload-created"
	// LabelPreDownloadIgnored is "true" once image jobs were found unnecessary for the revision. Written by
	// CloneSet.
	LabelPreDownloadIgnored = "apps.kruise.io/image-predownload-ignored"
	// AnnotationClaimTemplateHash is the hash of the volumeClaimTemplates. Written by CloneSet. Value:
	// uint32 in decimal, or "" when there are no templates.
	AnnotationClaimTemplateHash = "kruise.io/cloneset-volumeclaimtemplate-hash"
)

// Annotations on claims.
const (
	// AnnotationOwnedByStatefulSet is the name of the StatefulSet that made the claim grow. Written by the controller
	// with the new size: changes of the claim enqueue the StatefulSet.
	AnnotationOwnedByStatefulSet = "apps.kruise.io/owned-by-asts"
)

// Keys on the CloneSet object.
const (
	// AnnotationImagePreDownloadParallelism is v1alpha1's spelling of imagePreDownloadParallelism. Written by users and
	// by conversion. Value: int or percent as a string; v1beta1 validation accepts an int only.
	AnnotationImagePreDownloadParallelism = "apps.kruise.io/image-predownload-parallelism"
	// AnnotationImagePreDownloadTimeoutSeconds is v1alpha1's spelling of imagePreDownloadTimeoutSeconds. Written by
	// users and by conversion. Value: seconds as a decimal int32.
	AnnotationImagePreDownloadTimeoutSeconds = "apps.kruise.io/image-predownload-timeout-seconds"
	// AnnotationImagePreDownloadMinUpdatedReadyPods is v1alpha1's spelling of imagePreDownloadMinUpdatedReadyPods.
	// Written by users and by conversion. Value: int, or a percent. v1beta1 cannot express a percent, and conversion
	// leaves a percent alone.
	AnnotationImagePreDownloadMinUpdatedReadyPods = "apps.kruise.io/image-predownload-min-updated-ready-pods"
	// LabelExcludePreparingDelete set to "true" is v1alpha1's spelling of scaleStrategy.excludePreparingDelete. Written
	// by users and by conversion.
	LabelExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
	// LabelDeleteProtection refuses deletion of the object. Written by users. Value: a DeleteProtection constant;
	// anything else protects nothing.
	LabelDeleteProtection = "policy.kruise.io/delete-protection"
	// DeleteProtectionAlways refuses deletion for as long as the label is present.
	DeleteProtectionAlways = "Always"
	// DeleteProtectionCascading refuses deletion while spec.replicas is above 0.
	DeleteProtectionCascading = "Cascading"
	// AnnotationV1beta1Only keeps, on a v1alpha1 object, the values that v1alpha1 cannot express. Written and removed
	// by conversion. Value: JSON, described in package conversion.
	AnnotationV1beta1Only = "workloadkit.io/v1beta1-only"
	// AnnotationV1alpha1Only keeps, on a v1beta1 object, the values that v1beta1 cannot express. Written and removed by
	// conversion. Value: JSON, described in package conversion.
	AnnotationV1alpha1Only = "workloadkit.io/v1alpha1-only"
)

// Container environment.
const (
	// EnvContainerPriority is an int32 in decimal, set by users on a container to order its start. The Pod webhook
	// turns EnvContainerPriority into EnvContainerBarrier.
	EnvContainerPriority = "KRUISE_CONTAINER_PRIORITY"
	// EnvContainerBarrier is written by the Pod webhook: a configMapKeyRef to ConfigMap "<pod>-barrier" with key
	// "p_<priority>". In-place update reads the priority of a container from the key.
	EnvContainerBarrier = "KRUISE_CONTAINER_BARRIER"
	// ContainerBarrierKeyPrefix starts the key in EnvContainerBarrier; the priority in decimal follows.
	ContainerBarrierKeyPrefix = "p_"
	// ContainerBarrierNameSuffix ends the name of the ConfigMap in EnvContainerBarrier; the Pod's name precedes.
	ContainerBarrierNameSuffix = "-barrier"
	// AnnotationLaunchPriority on a Pod, with the value LaunchPriorityOrdered, makes containers start in the order of
	// spec.containers. Written by users.
	AnnotationLaunchPriority = "apps.kruise.io/container-launch-priority"
	// LaunchPriorityOrdered is the only value of AnnotationLaunchPriority.
	LaunchPriorityOrdered = "Ordered"
	// AnnotationLaunchPriorityCompleted is "true" on Pods whose containers may all start. Written by the controller of
	// launch priorities.
	AnnotationLaunchPriorityCompleted = "apps.kruise.io/container-launch-priority-completed"
	// EnvSidecarSetVersion is written by SidecarSet injection; a change of its source never restarts a container.
	EnvSidecarSetVersion = "SIDECARSET_VERSION"
	// EnvSidecarSetVersionAlt is the second version variable, for hot upgrades.
	EnvSidecarSetVersionAlt = "SIDECARSET_VERSION_ALT"
)
