package podstate

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Requests returns the total resource requests of containers: the sum of all containers that run at the same time, or
// the largest sum of an init container and the native sidecars started before, whichever is more
// (AggregateContainerRequests in k8s.io/component-helpers, KEP-753).
func Requests(init, containers []corev1.Container) corev1.ResourceList {
	most, sidecars := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range init {
		c := &init[i]
		if IsNativeSidecar(c) {
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

// addRequests adds a container's requests to a sum. If a request is missing, the limit counts, as for the API server.
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

// raise raises each quantity of most to at least the quantity of least.
func raise(most, least corev1.ResourceList) {
	for name, quantity := range least {
		if have := most[name]; quantity.Cmp(have) > 0 {
			most[name] = quantity
		}
	}
}
