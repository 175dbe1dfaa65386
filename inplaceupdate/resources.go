package inplaceupdate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// planResources plans the changes of cpu and memory, and sets the requests and limits of the new container now to the
// values of the container old. Resource claims are compared together with all other fields.
func (u *Updater) planResources(p *Plan, path string, old, now *corev1.Container) {
	if sameQuantities(old.Resources.Limits, now.Resources.Limits) &&
		sameQuantities(old.Resources.Requests, now.Resources.Requests) {
		now.Resources.Limits, now.Resources.Requests = old.Resources.Limits, old.Resources.Requests
		return
	}
	path += "[" + now.Name + "].resources."
	before := len(p.Blocking)
	changed := corev1.ResourceRequirements{
		Limits: u.planQuantities(p, path+"limits", old.Resources.Limits, now.Resources.Limits),
		Requests: u.planQuantities(p, path+"requests", requestsBeside(&old.Resources, &now.Resources),
			requestsBeside(&now.Resources, &old.Resources)),
	}
	followLimits(&changed, &old.Resources, &now.Resources)
	if len(p.Blocking) == before && len(changed.Limits)+len(changed.Requests) > 0 {
		put(&p.Resources, now.Name, changed)
		p.ResizeRestarts = p.ResizeRestarts || resizeRestarts(now, changed)
	}
	now.Resources.Limits, now.Resources.Requests = old.Resources.Limits, old.Resources.Requests
}

// requestsBeside returns the requests r of a template as the API server stores the requests in Pods. If r sets only a
// limit, and the other template sets the request, the API server has stored r's limit as the request.
func requestsBeside(r, other *corev1.ResourceRequirements) corev1.ResourceList {
	all := r.Requests
	for name, limit := range r.Limits {
		_, set := r.Requests[name]
		if _, written := other.Requests[name]; set || !written {
			continue
		}
		if len(all) == len(r.Requests) {
			all = maps.Clone(r.Requests)
		}
		put(&all, name, limit)
	}
	return all
}

// followLimits changes a request together with its limit if neither template sets the request. The API server sets
// such a request to the limit when a Pod is created, but not when the limit changes later.
func followLimits(changed, old, now *corev1.ResourceRequirements) {
	for name, limit := range changed.Limits {
		_, was := old.Requests[name]
		_, is := now.Requests[name]
		if was || is {
			continue
		}
		put(&changed.Requests, name, limit)
	}
}

func (u *Updater) planQuantities(p *Plan, path string, old, now corev1.ResourceList) corev1.ResourceList {
	var changed corev1.ResourceList
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, ok := old[name]
		is := now[name]
		at := path + "[" + string(name) + "]"
		switch {
		case ok && was.Cmp(is) == 0:
		case name != corev1.ResourceCPU && name != corev1.ResourceMemory:
			p.block(ResourceNotResizable, at, text(&was, ok), is.String(),
				"only cpu and memory of a live Pod can change", "recreate the Pod")
		case !u.config.AllowResize:
			p.block(ResizeDisabled, at, text(&was, ok), is.String(), "resizing in place is not enabled",
				"enable it or recreate the Pod")
		case !ok:
			p.block(ResourceSetChanged, at, "", is.String(), "a resize replaces existing values and adds none",
				"recreate the Pod")
		default:
			put(&changed, name, is)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, ok := now[name]; !ok {
			was := old[name]
			p.block(ResourceSetChanged, path+"["+string(name)+"]", was.String(), "",
				"a resize replaces existing values and removes none", "recreate the Pod")
		}
	}
	return changed
}

func sameQuantities(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, quantity := range a {
		if other, ok := b[name]; !ok || quantity.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

func text(q interface{ String() string }, ok bool) string {
	if !ok {
		return ""
	}
	return q.String()
}

// resizeRestarts reports whether the kubelet restarts the container because of the resize policy of a changed resource.
func resizeRestarts(container *corev1.Container, changed corev1.ResourceRequirements) bool {
	for _, policy := range container.ResizePolicy {
		if policy.RestartPolicy != corev1.RestartContainer {
			continue
		}
		_, limit := changed.Limits[policy.ResourceName]
		_, request := changed.Requests[policy.ResourceName]
		if limit || request {
			return true
		}
	}
	return false
}

// checkQOS makes the plan impossible if the Pod's QoS class would change.
func (p *Plan) checkQOS(from, to *corev1.PodTemplateSpec) {
	if was, is := qosClass(&from.Spec), qosClass(&to.Spec); was != is {
		p.Blocking = append(p.Blocking, reason.Reason{
			Code: QOSClassWouldChange, Path: "spec.containers[*].resources", Old: string(was), New: string(is),
			Detail: "a Pod keeps its QoS class for life",
			Remedy: "keep requests equal to limits, or different, as they were; or recreate the Pod",
		})
	}
}

// qosClass computes the QoS class as the API server does: from the Pod-level resources if set (KEP-2837), otherwise
// from all containers. Only cpu and memory count, and zero counts as unset.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	if r := spec.Resources; r != nil && len(r.Limits)+len(r.Requests) > 0 {
		return classOf([]corev1.ResourceRequirements{*r})
	}
	all := make([]corev1.ResourceRequirements, 0, len(spec.Containers)+len(spec.InitContainers))
	for i := range spec.InitContainers {
		all = append(all, spec.InitContainers[i].Resources)
	}
	for i := range spec.Containers {
		all = append(all, spec.Containers[i].Resources)
	}
	return classOf(all)
}

func classOf(all []corev1.ResourceRequirements) corev1.PodQOSClass {
	used, guaranteed := false, true
	for _, r := range all {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit := r.Limits[name]
			request, set := r.Requests[name]
			used = used || !limit.IsZero() || !request.IsZero()
			// The API server sets a missing request to the limit, but does not change a request of zero.
			same := !set || request.Cmp(limit) == 0
			guaranteed = guaranteed && !limit.IsZero() && same
		}
	}
	switch {
	case !used:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// unsent returns the resources of the current batch that the Pod's spec does not have yet. pods/resize is a separate
// request after the patch that begins the batch, so the controller may have stopped in between.
func (v *view) unsent() map[string]corev1.ResourceRequirements {
	var out map[string]corev1.ResourceRequirements
	for name, want := range v.state.BatchResources {
		if spec := v.container(name).spec; spec != nil && !hasResources(&spec.Resources, &want) {
			put(&out, name, want)
		}
	}
	return out
}

// hasResources reports whether have has every request and limit of want, each with the same quantity. have may also
// have further resources.
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

// unresized names the containers to which the node has not given their requests and limits. A native sidecar counts
// only if its node reports the sidecar's resources.
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

// isResized reports whether the node has given the container the resources of its spec. If a node reports no resources,
// the container counts as not resized. A node may report more than the spec: a container without a limit of its own has
// the limit of its Pod (KEP-2837).
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

// resizeTrouble returns the node's message that says why a resize is impossible or deferred (KEP-1287).
func resizeTrouble(pod *corev1.Pod) string {
	for _, t := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if c := podstate.Condition(pod, t); c != nil && c.Status == corev1.ConditionTrue && c.Reason != "" {
			return ": " + strings.TrimSpace(c.Reason+" "+c.Message)
		}
	}
	return ""
}
