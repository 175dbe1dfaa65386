package inplaceupdate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// unsent returns the resources of the current batch missing in the Pod's spec. pods/resize is a separate request after
// the write that begins the batch, so the sender may have stopped in between.
func (v *view) unsent() map[string]corev1.ResourceRequirements {
	var out map[string]corev1.ResourceRequirements
	for name, want := range v.state.BatchResources {
		if spec := v.container(name).spec; spec != nil && !hasResources(&spec.Resources, &want) {
			put(&out, name, want)
		}
	}
	return out
}

// hasResources reports whether the wanted quantities are present. Further quantities may be present, too.
func hasResources(have, want *corev1.ResourceRequirements) bool {
	return hasQuantities(have.Limits, want.Limits) && hasQuantities(have.Requests, want.Requests)
}

func hasQuantities(have, want corev1.ResourceList) bool {
	for name, quantity := range want {
		if is, ok := have[name]; !ok || is.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}

// unresized names the containers without their requests and limits. A native sidecar counts only if its node reports
// resources.
func (v *view) unresized() reason.List {
	var list reason.List
	for i := range v.containers {
		c := &v.containers[i]
		reported := c.status != nil && c.status.Resources != nil
		if c.spec == nil || (c.init && !reported) || c.isResized() {
			continue
		}
		list = append(list, reason.Reason{
			Code: ResizeNotDone, Object: v.object(), Path: "status.containerStatuses[" + c.name + "].resources",
			Detail: "container " + c.name + " does not have its new resources" + resizeTrouble(v.pod),
		})
	}
	return list
}

// isResized reports whether the node has given the container the resources of its spec. A node without a report of
// resources has given none. A node may report more than the spec: a container without its own limit has the limit of
// its Pod (KEP-2837).
func (c *container) isResized() bool {
	if c.status == nil {
		return false
	}
	var has corev1.ResourceRequirements
	if c.status.Resources != nil {
		has = *c.status.Resources
	}
	return hasResources(&has, &c.spec.Resources)
}

// resizeTrouble returns the node's message about a resize not possible or not wanted now (KEP-1287).
func resizeTrouble(pod *corev1.Pod) string {
	for _, t := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if c := podstate.Condition(pod, t); c != nil && c.Status == corev1.ConditionTrue && c.Reason != "" {
			return ": " + strings.TrimSpace(c.Reason+" "+c.Message)
		}
	}
	return ""
}
