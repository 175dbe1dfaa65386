package apps

import "maps"

// Gate is the name of a feature gate. [DefaultGates] has the defaults.
type Gate string

// Stage is the maturity of a feature. In the flag for gates, AllAlpha and AllBeta stand for all gates of a stage.
type Stage string

// These are the stages of features.
const (
	Alpha Stage = "ALPHA"
	Beta  Stage = "BETA"
)

// GateSpec is the default and the stage of a gate.
type GateSpec struct {
	Default bool
	Stage   Stage
}

// These are the gates of CloneSet and its webhooks.
const (
	// GateInPlaceUpdateEnvFromMetadata makes the node agent restart a container when a label or annotation to which
	// the environment refers has changed. The default is true. The gate is always off if GateKruiseDaemon is off.
	GateInPlaceUpdateEnvFromMetadata Gate = "InPlaceUpdateEnvFromMetadata"
	// GateKruiseDaemon says that node agents run on the Nodes. Image jobs and runtime metadata need the node agents.
	// The default is true.
	GateKruiseDaemon Gate = "KruiseDaemon"
	// GatePodUnavailableBudgetDelete makes deletions subject to PodUnavailableBudgets. The default is true.
	GatePodUnavailableBudgetDelete Gate = "PodUnavailableBudgetDeleteGate"
	// GatePodUnavailableBudgetUpdate makes in-place updates subject to PodUnavailableBudgets. The default is false.
	GatePodUnavailableBudgetUpdate Gate = "PodUnavailableBudgetUpdateGate"
	// GateCloneSetShortHash makes CloneSet write only the hash into LabelRevision, without the owner's name. The
	// default is false.
	GateCloneSetShortHash Gate = "CloneSetShortHash"
	// GateCloneSetPartitionRollback makes CloneSet return Pods to the old revision when the partition is raised. The
	// default is false.
	GateCloneSetPartitionRollback Gate = "CloneSetPartitionRollback"
	// GateCloneSetEventHandlerOptimization makes CloneSet ignore Pod events that cannot change a decision. The default
	// is false.
	GateCloneSetEventHandlerOptimization Gate = "CloneSetEventHandlerOptimization"
	// GatePreparingUpdateAsUpdate makes Pods in the state PreparingUpdate count as updated when a CloneSet is scaled.
	// The default is false.
	GatePreparingUpdateAsUpdate Gate = "PreparingUpdateAsUpdate"
	// GateRecreatePodWhenChangeVCT makes CloneSet recreate Pods whose claim templates have changed. The default is
	// false.
	GateRecreatePodWhenChangeVCT Gate = "RecreatePodWhenChangeVCTInCloneSetGate"
	// GatePreDownloadImageForInPlaceUpdate makes the controllers create jobs that pull images before in-place updates.
	// The default is false.
	GatePreDownloadImageForInPlaceUpdate Gate = "PreDownloadImageForInPlaceUpdate"
	// GateInPlaceWorkloadVerticalScaling allows cpu and memory to be changed by in-place updates. The default is false.
	GateInPlaceWorkloadVerticalScaling Gate = "InPlaceWorkloadVerticalScaling"
	// GateKruisePodReadiness adds ConditionKruisePodReady to every Pod, not only to Pods of this group's workloads. The
	// default is false.
	GateKruisePodReadiness Gate = "KruisePodReadinessGate"
	// GateTemplateNoDefaults means that Pod and claim templates are stored as written, without defaults. The default is
	// false.
	GateTemplateNoDefaults Gate = "TemplateNoDefaults"
	// GateDefaultHostNetworkHostPorts means that defaulting sets hostPort in templates with hostNetwork. The default is
	// false.
	GateDefaultHostNetworkHostPorts Gate = "DefaultHostNetworkHostPortsInPodTemplates"
	// GateForceDeleteTimeoutExpectation limits the time for which a controller waits for the cache to show the
	// controller's own writes. The default is false.
	GateForceDeleteTimeoutExpectation Gate = "ForceDeleteTimeoutExpectationGate"
	// GateResourcesDeletionProtection makes LabelDeleteProtection effective. The default is false.
	GateResourcesDeletionProtection Gate = "ResourcesDeletionProtection"
)

// These are the gates of StatefulSet and its webhooks, beside the gates of CloneSet.
const (
	// GateStatefulSetAutoDeletePVC makes persistentVolumeClaimRetentionPolicy effective. The default is true.
	GateStatefulSetAutoDeletePVC Gate = "StatefulSetAutoDeletePVC"
	// GateStatefulSetStartOrdinal makes ordinals.start effective. The default is false.
	GateStatefulSetStartOrdinal Gate = "StatefulSetStartOrdinal"
	// GateStatefulSetAutoResizePVC makes volumeClaimUpdateStrategy effective. The default is false.
	GateStatefulSetAutoResizePVC Gate = "StatefulSetAutoResizePVCGate"
	// GatePodIndexLabel makes StatefulSet write LabelPodIndex. The default is true.
	GatePodIndexLabel Gate = "PodIndexLabel"
)

// These are the gates of OpenKruise 1.9 for all remaining kinds and features.
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

// ResolveGates returns the values of all gates if the gates in set are set. A gate that set does not contain has its
// default. A gate that depends on another gate is off if the other gate is off. GateImagePullJob is on if a gate that
// creates image jobs is on. Unknown names are kept in the result, so that callers can report the names.
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
