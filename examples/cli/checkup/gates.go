package checkup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/reason"
)

// needed lists, for each feature gate, the kinds without which the gate has no effect, by their plural names.
func needed() map[apps.Gate][]string {
	return map[apps.Gate][]string{
		apps.GateWorkloadSpread:       {"workloadspreads"},
		apps.GateResourceDistribution: {"resourcedistributions"},
		apps.GateSidecarTerminator:    {"containerrecreaterequests"},
		apps.GatePodProbeMarker:       {"podprobemarkers", "nodepodprobes"},
		apps.GateImagePullJob:         {"imagepulljobs", "nodeimages"},
	}
}

// set returns the feature gates that the manager's command line sets.
func (f *Facts) set() map[string]bool {
	gates := map[string]bool{}
	if f.Manager == nil {
		return gates
	}
	for i := range f.Manager.Spec.Template.Spec.Containers {
		c := &f.Manager.Spec.Template.Spec.Containers[i]
		for _, arg := range slices.Concat(c.Command, c.Args) {
			list, isGates := strings.CutPrefix(strings.TrimLeft(arg, "-"), "feature-gates=")
			if !isGates {
				continue
			}
			for pair := range strings.SplitSeq(list, ",") {
				name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
				if on, err := strconv.ParseBool(value); err == nil {
					gates[name] = on
				}
			}
		}
	}
	return gates
}

func (f *Facts) gate(name string, byDefault bool) bool {
	if on, isSet := f.set()[name]; isSet {
		return on
	}
	return byDefault
}

// gates compares the manager's feature gates with the served kinds. A gate that is on by default counts only if the
// command line sets the gate, because a manager skips default kinds that the API server does not serve.
func (f *Facts) gates() (list reason.List) {
	if f.Manager == nil {
		return nil
	}
	known, needs := apps.GateSpecs(), needed()
	set := f.set()
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		object := reason.ObjectOf("Deployment", f.Manager)
		if _, isKnown := known[apps.Gate(name)]; !isKnown && name != "AllAlpha" && name != "AllBeta" {
			list = append(list, reason.Reason{Code: GateUnknown, Object: object, Path: "--feature-gates", New: name, Remedy: "correct the name of the gate"})
		}
		for _, resource := range needs[apps.Gate(name)] {
			if set[name] && !f.serves(resource) {
				list = append(list, reason.Reason{
					Code: GateWithoutCRD, Object: object, Path: "--feature-gates", New: name,
					Detail: fmt.Sprintf("the gate needs %s.%s, which the API server does not serve", resource, facts.AppsGroup), Remedy: "apply the CRD, or turn the gate off",
				})
			}
		}
	}
	return list
}

func (f *Facts) serves(resource string) bool {
	for i := range f.CRDs {
		if f.CRDs[i].GetName() == resource+"."+facts.AppsGroup {
			return true
		}
	}
	return false
}
