package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// isBuilt reports whether anything here consults a gate.
func isBuilt(gate apps.Gate) bool {
	switch gate {
	case apps.GateInPlaceUpdateEnvFromMetadata, apps.GateKruiseDaemon, apps.GateCloneSetShortHash,
		apps.GateCloneSetPartitionRollback, apps.GatePreparingUpdateAsUpdate, apps.GateRecreatePodWhenChangeVCT,
		apps.GateInPlaceWorkloadVerticalScaling, apps.GateForceDeleteTimeoutExpectation, apps.GateTemplateNoDefaults,
		apps.GateDefaultHostNetworkHostPorts, apps.GateResourcesDeletionProtection, apps.GateExternalCerts:
		return true
	default:
		return false
	}
}

// ParseGates reads "Name=true,Other=false". AllAlpha and AllBeta stand for the gates of a stage whose features are built;
// a gate that is named itself wins over them, whatever the order. Unknown names and values are errors that name them
// and what is known, and so is a gate that would switch on what is not built.
func ParseGates(text string) (map[apps.Gate]bool, error) {
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
	return apps.ResolveGates(set), nil
}

// addStages sets the gates of stages that were not named themselves.
func addStages(set map[apps.Gate]bool, stages map[apps.Stage]bool) {
	for gate, spec := range apps.GateSpecs() {
		on, all := stages[spec.Stage]
		if _, named := set[gate]; all && !named && (!on || isBuilt(gate)) {
			set[gate] = on
		}
	}
}
