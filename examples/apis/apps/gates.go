package apps

import "maps"

// Gate names a feature gate. Its default is in [DefaultGates].
type Gate string

// Gates that CloneSet or its webhooks consult.
const (
	// GateInPlaceUpdateEnvFromMetadata restarts containers whose environment reads a changed label or annotation
	// (U-7). Default true; off whenever GateKruiseDaemon is off.
	GateInPlaceUpdateEnvFromMetadata Gate = "InPlaceUpdateEnvFromMetadata"
	// GateKruiseDaemon says that the node daemon runs, which image jobs and runtime metadata need. Default true.
	GateKruiseDaemon Gate = "KruiseDaemon"
	// GatePodUnavailableBudgetDelete checks deletions against PodUnavailableBudget. Default true.
	GatePodUnavailableBudgetDelete Gate = "PodUnavailableBudgetDeleteGate"
	// GatePodUnavailableBudgetUpdate checks in-place updates against PodUnavailableBudget (C-44). Default false.
	GatePodUnavailableBudgetUpdate Gate = "PodUnavailableBudgetUpdateGate"
	// GateCloneSetShortHash writes the bare hash to LabelRevision (R-7, C-60). Default false.
	GateCloneSetShortHash Gate = "CloneSetShortHash"
	// GateCloneSetPartitionRollback rolls Pods back when the partition grows (C-12, C-48). Default false.
	GateCloneSetPartitionRollback Gate = "CloneSetPartitionRollback"
	// GateCloneSetEventHandlerOptimization drops Pod events that cannot matter (C-57). Default false.
	GateCloneSetEventHandlerOptimization Gate = "CloneSetEventHandlerOptimization"
	// GatePreparingUpdateAsUpdate counts PreparingUpdate Pods as new in the scale phase (2.4). Default false.
	GatePreparingUpdateAsUpdate Gate = "PreparingUpdateAsUpdate"
	// GateRecreatePodWhenChangeVCT recreates Pods whose claim templates changed (U-6). Default false.
	GateRecreatePodWhenChangeVCT Gate = "RecreatePodWhenChangeVCTInCloneSetGate"
	// GatePreDownloadImageForInPlaceUpdate creates image jobs ahead of in-place updates (I-1). Default false.
	GatePreDownloadImageForInPlaceUpdate Gate = "PreDownloadImageForInPlaceUpdate"
	// GateInPlaceWorkloadVerticalScaling lets cpu and memory change in place (U-2, U-5). Default false.
	GateInPlaceWorkloadVerticalScaling Gate = "InPlaceWorkloadVerticalScaling"
	// GateKruisePodReadiness adds ConditionKruisePodReady to every Pod, not only to those of this group (U-30).
	// Default false.
	GateKruisePodReadiness Gate = "KruisePodReadinessGate"
	// GateTemplateNoDefaults leaves Pod and claim templates as written (V-2). Default false.
	GateTemplateNoDefaults Gate = "TemplateNoDefaults"
	// GateDefaultHostNetworkHostPorts fills in hostPort in templates with hostNetwork (V-3). Default false.
	GateDefaultHostNetworkHostPorts Gate = "DefaultHostNetworkHostPortsInPodTemplates"
	// GateForceDeleteTimeoutExpectation gives up on unobserved writes after the timeout (C-5). Default false.
	GateForceDeleteTimeoutExpectation Gate = "ForceDeleteTimeoutExpectationGate"
	// GateResourcesDeletionProtection makes LabelDeleteProtection effective (V-30). Default false.
	GateResourcesDeletionProtection Gate = "ResourcesDeletionProtection"
)

// DefaultGates returns the defaults in a map of the caller's own.
func DefaultGates() map[Gate]bool {
	return map[Gate]bool{
		GateInPlaceUpdateEnvFromMetadata:     true,
		GateKruiseDaemon:                     true,
		GatePodUnavailableBudgetDelete:       true,
		GatePodUnavailableBudgetUpdate:       false,
		GateCloneSetShortHash:                false,
		GateCloneSetPartitionRollback:        false,
		GateCloneSetEventHandlerOptimization: false,
		GatePreparingUpdateAsUpdate:          false,
		GateRecreatePodWhenChangeVCT:         false,
		GatePreDownloadImageForInPlaceUpdate: false,
		GateInPlaceWorkloadVerticalScaling:   false,
		GateKruisePodReadiness:               false,
		GateTemplateNoDefaults:               false,
		GateDefaultHostNetworkHostPorts:      false,
		GateForceDeleteTimeoutExpectation:    false,
		GateResourcesDeletionProtection:      false,
	}
}

// ResolveGates returns the defaults overridden by set, with the one dependency between gates applied: without the node
// daemon nothing can restart a container for changed metadata. Names it does not know are kept, so that callers can
// report them.
func ResolveGates(set map[Gate]bool) map[Gate]bool {
	gates := DefaultGates()
	maps.Copy(gates, set)
	if !gates[GateKruiseDaemon] {
		gates[GateInPlaceUpdateEnvFromMetadata] = false
	}
	return gates
}
