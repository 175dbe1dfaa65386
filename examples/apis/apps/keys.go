package apps

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Group is the API group of the workloads.
const Group = "apps.kruise.io"

// These annotations on ControllerRevisions exist only in this project, not in OpenKruise.
const (
	// AnnotationHashVersion marks a revision whose hash this project has computed, not OpenKruise. The value is the
	// version of the hash function.
	AnnotationHashVersion = "workloadkit.io/hash-version"
	// AnnotationClaimTemplates contains the claim templates of a revision's Pods.
	AnnotationClaimTemplates = "workloadkit.io/claim-templates"
)

// AnnotationRestartContainers on a CloneSet, StatefulSet or DaemonSet requests that containers of its Pods are
// restarted in place, within the limits of an update (maxUnavailable). The value is written by users, and copied to the
// ContainerRecreateRequests. Value: an RFC 3339 time, then the names of containers, separated by spaces
// ("2026-03-01T12:00:00Z app log"); without names, all containers are restarted. A container that has started at the
// given time or later is not restarted. OpenKruise has no such annotation.
const AnnotationRestartContainers = "workloadkit.io/restart-containers"

// AnnotationPlaceSince is, on a Pod of a WorkloadSpread, the time at which the Pod was assigned to a subset. The
// value is written by the Pod webhook. If the Pod's creationTimestamp differs from this time by 2 s or more, a second
// webhook checks whether the Pod is still assigned: see the conditions of the webhook vpodplace.kb.io. Value: seconds
// since 1970 in decimal. OpenKruise has no such annotation.
const AnnotationPlaceSince = "workloadkit.io/place-since"

// These are the labels on Pods.
const (
	// LabelRevision is a Pod's revision. The value is written by the owner at creation and at the START of an in-place
	// update. Value: the full name of the ControllerRevision ("web-7d9f8c6b5d"), or only the hash with gate
	// CloneSetShortHash. Both spellings mean the same revision.
	LabelRevision = "controller-revision-hash"
	// LabelPodTemplateHash is the hash of the revision, always without the owner's name ("7d9f8c6b5d"). The value is
	// written by CloneSet at creation, at an in-place update, and on Pods without the label.
	LabelPodTemplateHash = "pod-template-hash"
	// LabelInstanceID connects a Pod with its claims. The value is written by CloneSet on Pods and on their claims at
	// creation. Value: five characters ("x7k2p"), which are also the suffix of the Pod's name.
	LabelInstanceID = "apps.kruise.io/cloneset-instance-id"
	// LabelPodName is the name of the Pod. The value is written by StatefulSet at creation.
	LabelPodName = "statefulset.kubernetes.io/pod-name"
	// LabelPodIndex is the Pod's number in decimal ("3"). The value is written by StatefulSet at creation with gate
	// PodIndexLabel.
	LabelPodIndex = "apps.kubernetes.io/pod-index"
	// LabelSpecifiedDelete requests that the owner deletes this Pod, within the owner's limits. The value is written by
	// users, and by CloneSet for an update that recreates the Pod. Any value has this effect; CloneSet writes "true".
	LabelSpecifiedDelete = "apps.kruise.io/specified-delete"
	// LabelLifecycleState is the Pod's state in its lifecycle hooks. The value is written by the owner. Value: one of
	// the Lifecycle constants; a missing or empty label means Normal.
	LabelLifecycleState = "lifecycle.apps.kruise.io/state"
	// LabelUnavailablePrefix is the prefix of labels with which users declare a Pod unavailable, with any suffix and
	// any value. Only PodUnavailableBudget reads such labels; CloneSet ignores the labels.
	LabelUnavailablePrefix = "unavailable-pod.kruise.io/"
)

// These are the values of LabelLifecycleState.
const (
	// LifecyclePreparingNormal means that the Pod waits for the preNormal hook, or for a Node if there is no preNormal
	// hook.
	LifecyclePreparingNormal = "PreparingNormal"
	// LifecycleNormal means that no hook is pending. Only in the state Normal can a Pod be available.
	LifecycleNormal = "Normal"
	// LifecyclePreparingUpdate means that the Pod waits for the inPlaceUpdate hook before an update.
	LifecyclePreparingUpdate = "PreparingUpdate"
	// LifecycleUpdating means that an in-place update is in progress. The state is set by the write that starts the
	// update.
	LifecycleUpdating = "Updating"
	// LifecycleUpdated means that the Pod waits for the inPlaceUpdate hook after an update.
	LifecycleUpdated = "Updated"
	// LifecyclePreparingDelete means that the Pod waits for the preDelete hook.
	LifecyclePreparingDelete = "PreparingDelete"
)

// These are the annotations on Pods.
const (
	// AnnotationLifecycleTimestamp is when LabelLifecycleState was last changed, as RFC 3339 in UTC
	// ("2026-07-01T10:00:00Z"). The value is written by the owner together with LabelLifecycleState.
	AnnotationLifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"
	// AnnotationInPlaceUpdateState is the progress of an in-place update. The value is written by the owner. Value:
	// JSON, described in package inplaceupdate, always with revision, updateTimestamp and lastContainerStatuses.
	AnnotationInPlaceUpdateState = "apps.kruise.io/inplace-update-state"
	// AnnotationInPlaceUpdateGrace holds a change that is written to the Pod at the end of the grace period. The value
	// is written and removed by the owner. Value: JSON, described in package inplaceupdate.
	AnnotationInPlaceUpdateGrace = "apps.kruise.io/inplace-update-grace"
	// AnnotationInPlaceUpdateStateLegacy is the former name of AnnotationInPlaceUpdateState. The owner reads this
	// annotation if the annotation with the present name is missing, and removes this annotation at the next write.
	AnnotationInPlaceUpdateStateLegacy = "inplace-update-state"
	// AnnotationInPlaceUpdateGraceLegacy is the former name of AnnotationInPlaceUpdateGrace. The owner reads this
	// annotation if the annotation with the present name is missing, and removes this annotation at the next write.
	AnnotationInPlaceUpdateGraceLegacy = "inplace-update-grace"
	// AnnotationRuntimeContainersMeta lists the IDs of running containers with hashes of their environment. The value
	// is written by the node daemon, and read by the owner to decide whether an update is complete. Value: JSON,
	// described in package inplaceupdate/runtimemeta.
	AnnotationRuntimeContainersMeta = "apps.kruise.io/runtime-containers-meta"
	// AnnotationPodDeletionCost says which Pods are deleted first when a workload is scaled in: Pods with a lower value
	// are deleted first. The value is written by users. Value: an int32 in decimal without plus sign or leading zeros;
	// a missing or invalid value counts as 0.
	AnnotationPodDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
)

// ReservedPodLabels returns the labels written by a CloneSet on its Pods. Pod templates must not contain these labels.
func ReservedPodLabels() []string {
	return []string{LabelRevision, LabelPodTemplateHash, LabelInstanceID, LabelSpecifiedDelete, LabelLifecycleState}
}

// ReservedStatefulSetLabels returns the labels written by a StatefulSet on its Pods. Pod templates must not contain
// these labels.
func ReservedStatefulSetLabels() []string {
	return []string{LabelRevision, LabelPodName, LabelPodIndex, LabelSpecifiedDelete, LabelLifecycleState}
}

// KeyIn returns a label in the list that the selector uses, or "" if the selector uses none of the labels. A selector
// must not use labels that its owner writes: the owner adds and changes such labels, so a Pod that is selected now
// could later be released.
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

// ReservedPodAnnotations returns the annotations written by owners and node agents on Pods. Pod templates must not
// contain these annotations.
func ReservedPodAnnotations() []string {
	return []string{
		AnnotationLifecycleTimestamp, AnnotationInPlaceUpdateState, AnnotationInPlaceUpdateGrace,
		AnnotationInPlaceUpdateStateLegacy, AnnotationInPlaceUpdateGraceLegacy, AnnotationRuntimeContainersMeta,
	}
}

// These are the keys on ControllerRevisions. CloneSet also copies labels and annotations onto its revisions: all labels
// of spec.template.metadata.labels and, at creation, all annotations of the CloneSet.
const (
	// LabelRevisionHash is the hash at the end of the revision's name. The value is written by CloneSet at creation.
	LabelRevisionHash = "controller.kubernetes.io/hash"
	// LabelPreDownloadCreated is "true" once image jobs exist for the revision. The value is written by CloneSet. The
	// repeated "pre" is part of the key.
	LabelPreDownloadCreated = "apps.kruise.io/pre-predownload-created"
	// LabelPreDownloadIgnored is "true" once image jobs were found unnecessary for the revision. The value is written
	// by CloneSet.
	LabelPreDownloadIgnored = "apps.kruise.io/image-predownload-ignored"
	// AnnotationClaimTemplateHash is the hash of the volumeClaimTemplates. The value is written by CloneSet. Value: a
	// uint32 in decimal, or "" if there are no templates.
	AnnotationClaimTemplateHash = "kruise.io/cloneset-volumeclaimtemplate-hash"
)

// These are the annotations on claims.
const (
	// AnnotationOwnedByStatefulSet is the name of the StatefulSet that has enlarged the claim. The value is written by
	// the controller together with the new size, so that changes of the claim enqueue the StatefulSet.
	AnnotationOwnedByStatefulSet = "apps.kruise.io/owned-by-asts"
)

// These are the keys on the CloneSet object.
const (
	// AnnotationImagePreDownloadParallelism on a v1alpha1 object contains the value of the v1beta1 field
	// spec.imagePreDownloadParallelism. The value is written by users and by conversion. Value: an integer or a
	// percentage as a string; v1beta1 validation accepts only an integer.
	AnnotationImagePreDownloadParallelism = "apps.kruise.io/image-predownload-parallelism"
	// AnnotationImagePreDownloadTimeoutSeconds on a v1alpha1 object contains the value of the v1beta1 field
	// spec.imagePreDownloadTimeoutSeconds. The value is written by users and by conversion. Value: seconds, as an int32
	// in decimal.
	AnnotationImagePreDownloadTimeoutSeconds = "apps.kruise.io/image-predownload-timeout-seconds"
	// AnnotationImagePreDownloadMinUpdatedReadyPods on a v1alpha1 object contains the value of the v1beta1 field
	// spec.imagePreDownloadMinUpdatedReadyPods. The value is written by users and by conversion. Value: an integer or a
	// percentage. v1beta1 has no percentage, so conversion leaves a percentage in the annotation.
	AnnotationImagePreDownloadMinUpdatedReadyPods = "apps.kruise.io/image-predownload-min-updated-ready-pods"
	// LabelExcludePreparingDelete on a v1alpha1 object, with the value "true", has the same effect as the v1beta1 field
	// spec.scaleStrategy.excludePreparingDelete. The value is written by users and by conversion.
	LabelExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
	// LabelDeleteProtection makes admission refuse the deletion of the object. The value is written by users. Value:
	// a DeleteProtection constant; any other value has no effect.
	LabelDeleteProtection = "policy.kruise.io/delete-protection"
	// DeleteProtectionAlways makes admission refuse the deletion as long as the label is present.
	DeleteProtectionAlways = "Always"
	// DeleteProtectionCascading makes admission refuse the deletion while spec.replicas is above 0.
	DeleteProtectionCascading = "Cascading"
	// AnnotationV1beta1Only keeps, on a v1alpha1 object, the values that v1alpha1 cannot express. The value is written
	// and removed by conversion. Value: JSON, described in package conversion.
	AnnotationV1beta1Only = "workloadkit.io/v1beta1-only"
	// AnnotationV1alpha1Only keeps, on a v1beta1 object, the values that v1beta1 cannot express. The value is written
	// and removed by conversion. Value: JSON, described in package conversion.
	AnnotationV1alpha1Only = "workloadkit.io/v1alpha1-only"
)

// These are variables in the environment of containers, and further keys for the order in which containers start.
const (
	// EnvContainerPriority is an int32 in decimal. Users set EnvContainerPriority on a container to say when the
	// container starts. The Pod webhook then adds EnvContainerBarrier.
	EnvContainerPriority = "KRUISE_CONTAINER_PRIORITY"
	// EnvContainerBarrier is written by the Pod webhook: a configMapKeyRef to the ConfigMap "<pod>-barrier" with the
	// key "p_<priority>". In-place updates read the priority of a container from this key.
	EnvContainerBarrier = "KRUISE_CONTAINER_BARRIER"
	// ContainerBarrierKeyPrefix is the beginning of the key in EnvContainerBarrier; the priority in decimal follows.
	ContainerBarrierKeyPrefix = "p_"
	// ContainerBarrierNameSuffix is the end of the ConfigMap's name in EnvContainerBarrier, after the Pod's name.
	ContainerBarrierNameSuffix = "-barrier"
	// AnnotationLaunchPriority on a Pod, with the value LaunchPriorityOrdered, makes containers start in the order of
	// spec.containers. The value is written by users.
	AnnotationLaunchPriority = "apps.kruise.io/container-launch-priority"
	// LaunchPriorityOrdered is the only value of AnnotationLaunchPriority.
	LaunchPriorityOrdered = "Ordered"
	// AnnotationLaunchPriorityCompleted is "true" on a Pod whose containers may all start. The value is written by the
	// controller for launch priorities.
	AnnotationLaunchPriorityCompleted = "apps.kruise.io/container-launch-priority-completed"
	// EnvSidecarSetVersion is written by SidecarSet into sidecars. A change of the annotation from which the value is
	// read never restarts a container.
	EnvSidecarSetVersion = "SIDECARSET_VERSION"
	// EnvSidecarSetVersionAlt is, in a sidecar with hot upgrades, the version of the second of the sidecar's two
	// containers.
	EnvSidecarSetVersionAlt = "SIDECARSET_VERSION_ALT"
)
