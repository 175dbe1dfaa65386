package apps

import "maps"

// Gate is the name of a feature gate. [DefaultGates] has the defaults.
type Gate string

// Stage is the maturity of a feature. In the flag for gates, AllAlpha and AllBeta stand for all gates of a stage.
type Stage string

// Stages of features.
const (
	Alpha Stage = "ALPHA"
	Beta  Stage = "BETA"
)

// GateSpec is the default and the stage of a gate.
type GateSpec struct {
	Default bool
	Stage   Stage
}

// Gates of CloneSet and its webhooks.
const (
	// GateInPlaceUpdateEnvFromMetadata restarts a container when its environment refers to a label or annotation that
	// has changed. Default true; always off if GateKruiseDaemon is off.
	GateInPlaceUpdateEnvFromMetadata Gate = "InPlaceUpdateEnvFromMetadata"
	// GateKruiseDaemon says that the daemon runs on the Nodes. Image jobs and runtime metadata need the daemon. Default
	// true.
	GateKruiseDaemon Gate = "KruiseDaemon"
	// GatePodUnavailableBudgetDelete checks deletions against PodUnavailableBudget. Default true.
	GatePodUnavailableBudgetDelete Gate = "PodUnavailableBudgetDeleteGate"
	// GatePodUnavailableBudgetUpdate checks in-place updates against PodUnavailableBudget. Default false.
	GatePodUnavailableBudgetUpdate Gate = "PodUnavailableBudgetUpdateGate"
	// GateCloneSetShortHash writes only the hash to LabelRevision, without the owner's name. Default false.
	GateCloneSetShortHash Gate = "CloneSetShortHash"
	// GateCloneSetPartitionRollback returns Pods to the former revision when the partition is raised. Default false.
	GateCloneSetPartitionRollback Gate = "CloneSetPartitionRollback"
	// GateCloneSetEventHandlerOptimization ignores Pod events that cannot change a decision. Default false.
	GateCloneSetEventHandlerOptimization Gate = "CloneSetEventHandlerOptimization"
	// GatePreparingUpdateAsUpdate counts Pods in state PreparingUpdate as updated when a CloneSet is scaled. Default
	// false.
	GatePreparingUpdateAsUpdate Gate = "PreparingUpdateAsUpdate"
	// GateRecreatePodWhenChangeVCT recreates Pods whose claim templates changed. Default false.
	GateRecreatePodWhenChangeVCT Gate = "RecreatePodWhenChangeVCTInCloneSetGate"
	// GatePreDownloadImageForInPlaceUpdate creates jobs that pull images before in-place updates. Default false.
	GatePreDownloadImageForInPlaceUpdate Gate = "PreDownloadImageForInPlaceUpdate"
	// GateInPlaceWorkloadVerticalScaling allows in-place updates of cpu and memory. Default false.
	GateInPlaceWorkloadVerticalScaling Gate = "InPlaceWorkloadVerticalScaling"
	// GateKruisePodReadiness adds ConditionKruisePodReady to every Pod, not only to Pods of this group. Default false.
	GateKruisePodReadiness Gate = "KruisePodReadinessGate"
	// GateTemplateNoDefaults keeps Pod and claim templates as written, without defaults. Default false.
	GateTemplateNoDefaults Gate = "TemplateNoDefaults"
	// GateDefaultHostNetworkHostPorts fills in hostPort in templates with hostNetwork. Default false.
	GateDefaultHostNetworkHostPorts Gate = "DefaultHostNetworkHostPortsInPodTemplates"
	// GateForceDeleteTimeoutExpectation limits the time for which a controller waits for the cache to show the
	// controller's own writes. Default false.
	GateForceDeleteTimeoutExpectation Gate = "ForceDeleteTimeoutExpectationGate"
	// GateResourcesDeletionProtection makes LabelDeleteProtection effective. Default false.
	GateResourcesDeletionProtection Gate = "ResourcesDeletionProtection"
)

// Gates of StatefulSet and its webhooks, beside the gates of CloneSet.
const (
	// GateStatefulSetAutoDeletePVC makes persistentVolumeClaimRetentionPolicy effective. Default true.
	GateStatefulSetAutoDeletePVC Gate = "StatefulSetAutoDeletePVC"
	// GateStatefulSetStartOrdinal makes ordinals.start effective. Default false.
	GateStatefulSetStartOrdinal Gate = "StatefulSetStartOrdinal"
	// GateStatefulSetAutoResizePVC makes volumeClaimUpdateStrategy effective. Default false.
	GateStatefulSetAutoResizePVC Gate = "StatefulSetAutoResizePVCGate"
	// GatePodIndexLabel writes LabelPodIndex. Default true.
	GatePodIndexLabel Gate = "PodIndexLabel"
)

// Gates of OpenKruise 1.9 for all remaining kinds and features.
const (
	GatePodWebhook                         Gate = "PodWebhook"
	GateDaemonWatchingPod                  Gate = "DaemonWatchingPod"
	GateWorkloadSpread                     Gate = "WorkloadSpread"
	GateSidecarSetPatchPodMetadataDefaults Gate = "SidecarSetPatchPodMetadataDefaultsAllowed"
	GateSidecarTerminator                  Gate = "SidecarTerminator"
	GatePodProbeMarker                     Gate = "PodProbeMarkerGate"
	GatePreDownloadImageForDaemonSetUpdate Gate = "PreDownloadImageForDaemonSetUpdate"
	GateImagePullJob                       Gate = "ImagePullJobGate"
	GateResourceDistribution               Gate = "ResourceDistributionGate"
	GateDeletionProtectionForCRDCascading  Gate = "DeletionProtectionForCRDCascadingGate"
	GateEnhancedLivenessProbe              Gate = "EnhancedLivenessProbe"
	GateExternalCerts                      Gate = "EnableExternalCerts"
	GatePodProbeMarkerOnServerless         Gate = "EnablePodProbeMarkerOnServerless"
	GateSortSidecarContainerByName         Gate = "EnableSortSidecarContainerByName"
	GateInPlacePodVerticalScaling          Gate = "InPlacePodVerticalScaling"
	GateDaemonSetPruneIneligibleNodes      Gate = "DaemonSetPruneIneligibleNodes"
)

// GateSpecs returns the default and the stage of every gate of OpenKruise 1.9, in a new map.
func GateSpecs() map[Gate]GateSpec {
	on, off, alpha := GateSpec{true, Beta}, GateSpec{false, Beta}, GateSpec{false, Alpha}
	return map[Gate]GateSpec{
		GatePodWebhook:                         on,
		GateKruiseDaemon:                       on,
		GateDaemonWatchingPod:                  on,
		GateCloneSetShortHash:                  alpha,
		GateKruisePodReadiness:                 alpha,
		GatePreDownloadImageForInPlaceUpdate:   alpha,
		GateCloneSetPartitionRollback:          alpha,
		GateResourcesDeletionProtection:        off,
		GateWorkloadSpread:                     on,
		GatePodUnavailableBudgetDelete:         on,
		GatePodUnavailableBudgetUpdate:         alpha,
		GateTemplateNoDefaults:                 alpha,
		GateInPlaceUpdateEnvFromMetadata:       on,
		GateStatefulSetAutoDeletePVC:           on,
		GateSidecarSetPatchPodMetadataDefaults: alpha,
		GateSidecarTerminator:                  alpha,
		GatePodProbeMarker:                     on,
		GatePreDownloadImageForDaemonSetUpdate: alpha,
		GateCloneSetEventHandlerOptimization:   alpha,
		GatePreparingUpdateAsUpdate:            alpha,
		GateImagePullJob:                       alpha,
		GateResourceDistribution:               off,
		GateDeletionProtectionForCRDCascading:  alpha,
		GateEnhancedLivenessProbe:              alpha,
		GateRecreatePodWhenChangeVCT:           alpha,
		GateStatefulSetStartOrdinal:            alpha,
		GatePodIndexLabel:                      on,
		GateExternalCerts:                      alpha,
		GateStatefulSetAutoResizePVC:           alpha,
		GateForceDeleteTimeoutExpectation:      alpha,
		GateInPlaceWorkloadVerticalScaling:     alpha,
		GatePodProbeMarkerOnServerless:         alpha,
		GateSortSidecarContainerByName:         alpha,
		GateInPlacePodVerticalScaling:          alpha,
		GateDefaultHostNetworkHostPorts:        alpha,
		GateDaemonSetPruneIneligibleNodes:      alpha,
	}
}

// DefaultGates returns the defaults in a new map.
func DefaultGates() map[Gate]bool {
	gates := map[Gate]bool{}
	for name, spec := range GateSpecs() {
		gates[name] = spec.Default
	}
	return gates
}

// ResolveGates returns the gates that result from set. A gate missing in set has its default. A gate that depends on
// another gate is off if the latter is off, and GateImagePullJob is on if a gate that creates image jobs is on. Unknown
// names are kept, so that callers can report the names.
func ResolveGates(set map[Gate]bool) map[Gate]bool {
	gates := DefaultGates()
	maps.Copy(gates, set)
	without := func(needed Gate, dependents ...Gate) {
		if !gates[needed] {
			for _, dependent := range dependents {
				gates[dependent] = false
			}
		}
	}
	without(GatePodWebhook, GateKruisePodReadiness, GatePodUnavailableBudgetDelete, GatePodUnavailableBudgetUpdate,
		GateWorkloadSpread, GateSidecarSetPatchPodMetadataDefaults, GateEnhancedLivenessProbe, GatePodProbeMarkerOnServerless)
	without(GateKruiseDaemon, GatePreDownloadImageForInPlaceUpdate, GateDaemonWatchingPod, GateInPlaceUpdateEnvFromMetadata,
		GatePreDownloadImageForDaemonSetUpdate, GatePodProbeMarker, GateSidecarTerminator, GateImagePullJob, GateEnhancedLivenessProbe)
	if gates[GatePreDownloadImageForInPlaceUpdate] || gates[GatePreDownloadImageForDaemonSetUpdate] {
		gates[GateImagePullJob] = true
	}
	without(GateResourcesDeletionProtection, GateDeletionProtectionForCRDCascading)
	return gates
}
