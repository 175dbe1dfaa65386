package sidecarcontrol

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// fitRequests compares the requests of all containers with the Pod-level requests, as validatePodResourceConsistency
// does in pkg/apis/core/validation/validation.go.
func (d *draft) fitRequests(whole corev1.ResourceList) {
	needs := podstate.Requests(d.init.placed(), d.containers.placed())
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if may, need := whole[name], needs[name]; need.Cmp(may) > 0 {
			d.refuse(PodResourcesExceeded, "spec.resources.requests["+string(name)+"]",
				fmt.Sprintf("is %s, and the containers ask for %s with those of %s", may.String(), need.String(), d.names()))
		}
	}
}

// fitLimits compares the limits of sidecars with the Pod-level limits.
func (d *draft) fitLimits(whole corev1.ResourceList) {
	list := d.containers.placed()
	for i := range list {
		set := d.injected[list[i].Name]
		if set == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(whole)) {
			may := whole[name]
			if limit, has := list[i].Resources.Limits[name]; has && limit.Cmp(may) > 0 {
				d.refuse(PodResourcesExceeded, "spec.resources.limits["+string(name)+"]",
					fmt.Sprintf("is %s, and the limit of %s is %s", may.String(), d.whose(list[i].Name), limit.String()))
			}
		}
	}
}

// names returns the names of the sets, for the text of a reason.
func (d *draft) names() string {
	names := make([]string, len(d.sets))
	for i, set := range d.sets {
		names[i] = set.spec.Name
	}
	if len(names) == 1 {
		return "the set " + names[0]
	}
	return "the sets " + strings.Join(names, ", ")
}
