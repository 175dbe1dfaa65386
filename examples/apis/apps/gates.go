package apps

import "maps"

// Gate names a feature gate. [DefaultGates] has the default.
type Gate string

// Stage says how settled a feature is. The aggregates AllAlpha and AllBeta stand for all gates of a stage.
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
	// GateInPlaceUpdateEnvFromMetadata restarts containers whose environment reads a changed label or annotation.
	// Default true; off whenever GateKruiseDaemon is off.
	GateInPlaceUpdateEnvFromMetadata Gate = "InPlaceUpdateEnvFromMetadata"
	// GateKruiseDaemon says that the node daemon runs. Image jobs and runtime metadata need the daemon. Default true.
	GateKruiseDaemon Gate = "KruiseDaemon"
	// GatePodUnavailableBudgetDelete checks deletions against PodUnavailableBudget. Default true.
	GatePodUnavailableBudgetDelete Gate = "PodUnavailableBudgetDeleteGate"
	// GatePodUnavailableBudgetUpdate checks in-place updates against PodUnavailableBudget. Default false.
	GatePodUnavailableBudgetUpdate Gate = "PodUnavailableBudgetUpdateGate"
	// GateCloneSetShortHash writes the bare hash to LabelRevision. Default false.
	GateCloneSetShortHash Gate = "CloneSetShortHash"
	// GateCloneSetPartitionRollback rolls Pods back when the partition grows. Default false.
	GateCloneSetPartitionRollback Gate = "CloneSetPartitionRollback"
	// GateCloneSetEventHandlerOptimization drops Pod events that cannot matter. Default false.
	GateCloneSetEventHandlerOptimization Gate = "CloneSetEventHandlerOptimization"
	// GatePreparingUpdateAsUpdate counts PreparingUpdate Pods as new in the scale phase (2.4). Default false.
	GatePreparingUpdateAsUpdate Gate = "PreparingUpdateAsUpdate"
	// GateRecreatePodWhenChangeVCT recreates Pods whose claim templates changed. Default false.
	GateRecreatePodWhenChangeVCT Gate = "RecreatePodWhenChangeVCTInCloneSetGate"
	// GatePreDownloadImageForInPlaceUpdate creates image jobs ahead of in-place updates. Default false.
	GatePreDownloadImageForInPlaceUpdate Gate = "PreDownloadImageForInPlaceUpdate"
	// GateInPlaceWorkloadVerticalScaling lets cpu and memory change in place. Default false.
	GateInPlaceWorkloadVerticalScaling Gate = "InPlaceWorkloadVerticalScaling"
	// GateKruisePodReadiness adds ConditionKruisePodReady to every Pod, not only to Pods of this group. Default false.
	GateKruisePodReadiness Gate = "KruisePodReadinessGate"
	// GateTemplateNoDefaults leaves Pod and claim templates as written. Default false.
	GateTemplateNoDefaults Gate = "TemplateNoDefaults"
	// GateDefaultHostNetworkHostPorts fills in hostPort in templates with hostNetwork. Default false.
	GateDefaultHostNetworkHostPorts Gate = "DefaultHostNetworkHostPortsInPodTemplates"
	// GateForceDeleteTimeoutExpectation gives up on unobserved writes after the timeout. Default false.
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

// Further gates of OpenKruise 1.9, for other kinds and features.
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

// GateSpecs returns default and stage of every gate of OpenKruise 1.9, in a new map.
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

// ResolveGates returns the defaults overridden by set, with the dependencies between gates applied. Unknown names are
// kept, so that callers can report the names.
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
