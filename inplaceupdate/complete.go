package inplaceupdate

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// imagesUnfinished says which of the recorded containers do not run their new image yet. wait is when time alone may tell, and
// fresh whether the state has to be written for that.
func (u *Updater) imagesUnfinished(pod *corev1.Pod, state *progress, now time.Time) (waiting reason.List, fresh bool, wait time.Duration) {
	check := func(containers []corev1.Container) {
		for i := range containers {
			name := containers[i].Name
			if _, recorded := state.LastContainerStatuses[name]; !recorded {
				continue
			}
			why := u.imageRuns(pod, state, name)
			if why == nil {
				continue
			}
			proven, begins, left := u.provenByTime(pod, state, name, now)
			if proven {
				continue
			}
			fresh = fresh || begins
			if left > 0 && (wait == 0 || left < wait) {
				wait = left
			}
			waiting = append(waiting, *why)
		}
	}
	check(pod.Spec.InitContainers)
	if !u.plainHashesMatch(pod) { // the node agent reports containers, not native sidecars
		check(pod.Spec.Containers)
	}
	return waiting, fresh, wait
}

// unresized says which containers do not have their requests and limits yet. A native sidecar counts where its
// node reports what it has.
func (u *Updater) unresized(pod *corev1.Pod) reason.List {
	var waiting reason.List
	check := func(spec *corev1.Container, has *corev1.ResourceRequirements) {
		if has != nil && sameQuantities(spec.Resources.Limits, has.Limits) && sameQuantities(spec.Resources.Requests, has.Requests) {
			return
		}
		waiting = append(waiting, reason.Reason{
			Code: ResizeNotDone, Object: podObject(pod), Path: "status.containerStatuses[" + spec.Name + "].resources",
			Detail: "container " + spec.Name + " does not have its new resources" + resizeTrouble(pod),
		})
	}
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		if status := podstate.ContainerStatus(pod, spec.Name); podstate.IsNativeSidecar(spec) && status != nil && status.Resources != nil {
			check(spec, status.Resources)
		}
	}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		var has *corev1.ResourceRequirements
		if status := podstate.ContainerStatus(pod, spec.Name); status != nil {
			has = cmp.Or(status.Resources, &corev1.ResourceRequirements{})
		}
		check(spec, has)
	}
	return waiting
}

// resizeTrouble returns what the node says about a resize that it cannot or will not do now (KEP-1287).
func resizeTrouble(pod *corev1.Pod) string {
	for _, t := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if c := podstate.Condition(pod, t); c != nil && c.Status == corev1.ConditionTrue && c.Reason != "" {
			return ": " + strings.TrimSpace(c.Reason+" "+c.Message)
		}
	}
	return ""
}
