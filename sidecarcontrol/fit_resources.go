package sidecarcontrol

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/podstate"
)

// fitRequests compares what all containers ask for with what the Pod asks for as a whole, as validatePodResourceConsistency does in
// pkg/apis/core/validation/validation.go.
func (d *draft) fitRequests(whole corev1.ResourceList) {
	needs := requestsOf(d.init.placed(), d.containers.placed())
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if may, need := whole[name], needs[name]; need.Cmp(may) > 0 {
			d.refuse(PodResourcesExceeded, "spec.resources.requests["+string(name)+"]",
				fmt.Sprintf("is %s, and the containers ask for %s with those of %s", may.String(), need.String(), d.names()))
		}
	}
}

// fitLimits compares the limits of sidecars with those of the Pod as a whole.
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

// names lists the sets.
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

// requestsOf returns what containers ask for together: those that run side by side, or an init container with the native sidecars before it,
// whichever is more (AggregateContainerRequests in k8s.io/component-helpers, KEP-753).
func requestsOf(init, containers []corev1.Container) corev1.ResourceList {
	most, sidecars := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range init {
		c := &init[i]
		if podstate.IsNativeSidecar(c) {
			addRequests(sidecars, c)
			raise(most, sidecars)
			continue
		}
		alone := maps.Clone(sidecars)
		addRequests(alone, c)
		raise(most, alone)
	}
	for i := range containers {
		addRequests(sidecars, &containers[i])
	}
	raise(most, sidecars)
	return most
}

// addRequests adds what a container asks for. The API server takes a limit for a request that is missing.
func addRequests(sum corev1.ResourceList, c *corev1.Container) {
	add := func(name corev1.ResourceName, more resource.Quantity) {
		total := sum[name].DeepCopy()
		total.Add(more)
		sum[name] = total
	}
	for name, request := range c.Resources.Requests {
		add(name, request)
	}
	for name, limit := range c.Resources.Limits {
		if _, has := c.Resources.Requests[name]; !has {
			add(name, limit)
		}
	}
}

// raise makes each of the first at least as much as that of the second.
func raise(most, least corev1.ResourceList) {
	for name, quantity := range least {
		if have := most[name]; quantity.Cmp(have) > 0 {
			most[name] = quantity
		}
	}
}
