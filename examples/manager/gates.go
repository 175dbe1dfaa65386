package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

// isBuilt reports whether the feature of a gate exists in this project: some kind, some loop of the manager, or the
// manager itself must read the gate.
func isBuilt(gate apps.Gate) bool {
	switch gate {
	case apps.GateInPlaceUpdateEnvFromMetadata, apps.GateKruiseDaemon, apps.GateCloneSetShortHash,
		apps.GateCloneSetPartitionRollback, apps.GatePreparingUpdateAsUpdate, apps.GateRecreatePodWhenChangeVCT,
		apps.GateInPlaceWorkloadVerticalScaling, apps.GateForceDeleteTimeoutExpectation, apps.GateTemplateNoDefaults,
		apps.GateDefaultHostNetworkHostPorts, apps.GateResourcesDeletionProtection, apps.GateDeletionProtectionForCRDCascading, apps.GateExternalCerts,
		apps.GateStatefulSetStartOrdinal, apps.GatePodIndexLabel, apps.GateStatefulSetAutoDeletePVC, apps.GateStatefulSetAutoResizePVC,
		apps.GateDaemonSetPruneIneligibleNodes, apps.GatePodWebhook, apps.GateKruisePodReadiness,
		apps.GateSidecarSetPatchPodMetadataDefaults, apps.GateSortSidecarContainerByName, apps.GateInPlacePodVerticalScaling,
		apps.GateEnhancedLivenessProbe, apps.GatePreDownloadImageForInPlaceUpdate, apps.GatePreDownloadImageForDaemonSetUpdate:
		return true
	default:
		return slices.ContainsFunc(kinds.All(), func(r kind.Row) bool { return slices.Contains(r.Gates, gate) }) ||
			slices.ContainsFunc(kinds.Loops(), func(l kinds.Loop) bool { return l.Gate == gate })
	}
}

// isMode reports whether a gate enables no feature, but determines which component does a task. A user who enables
// all features of a stage (alpha or beta) does not want to change modes.
func isMode(gate apps.Gate) bool { return gate == apps.GateExternalCerts }

// GateGaps returns a text for each feature gate that the argument turns on, by the gate's name or by its stage, if a
// part of the feature is missing in this project. The argument has the format that [ParseGates] reads.
func GateGaps(text string) (map[apps.Gate]string, error) {
	set, err := readGates(text)
	if err != nil {
		return nil, err
	}
	gaps := map[apps.Gate]string{}
	for gate, on := range apps.ResolveGates(set) {
		if !on || !set[gate] {
			continue // the gate is not set
		}
		if !isBuilt(gate) {
			gaps[gate] = "nothing of it is built"
		}
	}
	return gaps, nil
}

// ParseGates reads text such as "Name=true,OtherName=false". AllAlpha and AllBeta set all gates of a stage whose
// features exist, except EnableExternalCerts, which determines a mode of operation and must be named. An entry with a
// gate's name takes precedence over an entry with a stage, whatever the order. Unknown names and values are errors
// that list the known values. Turning on a gate whose feature does not exist is also an error.
func ParseGates(text string) (map[apps.Gate]bool, error) {
	set, err := readGates(text)
	if err != nil {
		return nil, err
	}
	return apps.ResolveGates(set), nil
}

// readGates returns the gates that text sets, by name or by stage.
func readGates(text string) (map[apps.Gate]bool, error) {
	specs := apps.GateSpecs()
	set, stages := map[apps.Gate]bool{}, map[apps.Stage]bool{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, _ := strings.Cut(item, "=")
		if value != "true" && value != "false" {
			return nil, fmt.Errorf("feature gate %q: value %q is neither true nor false", name, value)
		}
		gate, on := apps.Gate(name), value == "true"
		_, known := specs[gate]
		switch {
		case name == "AllAlpha":
			stages[apps.Alpha] = on
		case name == "AllBeta":
			stages[apps.Beta] = on
		case !known:
			return nil, fmt.Errorf("unknown feature gate %q; known are %v", name, slices.Sorted(maps.Keys(specs)))
		case on && !specs[gate].Default && !isBuilt(gate):
			return nil, fmt.Errorf("feature gate %s: what it switches on is not built yet; leave it out", name)
		default:
			set[gate] = on
		}
	}
	addStages(set, stages)
	return set, nil
}

// addStages sets the gates of the given stages (alpha or beta), except the gates that set contains already.
func addStages(set map[apps.Gate]bool, stages map[apps.Stage]bool) {
	for gate, spec := range apps.GateSpecs() {
		on, all := stages[spec.Stage]
		if _, named := set[gate]; all && !named && (!on || (isBuilt(gate) && !isMode(gate))) {
			set[gate] = on
		}
	}
}
