package launchorder

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Step is the next action for a Pod, as decided by [Order.Next].
type Step struct {
	// Open lists the keys to add to the ConfigMap, in the order in which the containers start.
	Open []string
	// Complete is true if all keys are in the ConfigMap once the keys in Open are added. The Pod can then be marked as
	// completed.
	Complete bool
	// Waiting names the containers that must become ready before further keys may be added.
	Waiting reason.List
}

// gated is a container whose start waits for a key in the Pod's ConfigMap, because the container has a barrier.
type gated struct {
	container *corev1.Container
	key       string
	priority  int
}

// gates returns the containers that wait for the Pod's ConfigMap, those with the highest priority first. gates
// returns a container once for each of the container's barriers, because a Pod that was admitted without Inject may
// have containers with several barriers.
func (o *Order) gates(pod *corev1.Pod) (out []gated) {
	name := o.ConfigMapName(pod)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		for j := range c.Env {
			priority, ok := o.level(&c.Env[j])
			if ok && c.Env[j].Name == o.keys.BarrierEnv && keyRef(&c.Env[j]).Name == name {
				out = append(out, gated{c, keyRef(&c.Env[j]).Key, priority})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b gated) int { return cmp.Compare(b.priority, a.priority) })
	return out
}

// Needed reports whether a controller must look at the Pod's ConfigMap. The result is true if containers wait for
// keys, and the Pod is not marked as completed. For a completed Pod, the result is true if the kubelet does not find
// a key.
func (o *Order) Needed(pod *corev1.Pod) bool {
	if !podstate.IsActive(pod) {
		return false
	}
	gates := o.gates(pod)
	return len(gates) > 0 &&
		(!o.completed(pod) || slices.ContainsFunc(gates, func(g gated) bool { return misses(pod, g) }))
}

// Opened returns the keys in content for which the Pod's containers wait. The values are replaced by True, because only
// the keys matter.
func (o *Order) Opened(pod *corev1.Pod, content map[string]string) map[string]string {
	opened := map[string]string{}
	for _, g := range o.gates(pod) {
		if _, open := content[g.key]; open {
			opened[g.key] = True
		}
	}
	return opened
}

// Misses reports whether the kubelet has failed to create a container although the container's key was added. Either
// the kubelet has not tried again yet, or the ConfigMap was deleted.
func (o *Order) Misses(pod *corev1.Pod, opened map[string]string) bool {
	return slices.ContainsFunc(o.gates(pod), func(g gated) bool {
		_, open := opened[g.key]
		return open && misses(pod, g)
	})
}

// misses reports whether the kubelet cannot create a container because a reference in the container's environment
// cannot be resolved. The function compares the reason that the kubelet has set in the container's status.
func misses(pod *corev1.Pod, g gated) bool {
	status := podstate.ContainerStatus(pod, g.container.Name)
	return status != nil && status.State.Waiting != nil && status.State.Waiting.Reason == "CreateContainerConfigError"
}

// Next decides the next action for a Pod. opened is the content of the Pod's ConfigMap, or nil if the ConfigMap does
// not exist. A key counts as added whatever its value. Next returns keys from the highest priority down, up to the
// first container that is not ready. Once all keys are added, the order is complete, and later crashes of containers do
// not matter. If the Pod is marked as completed, Next returns every missing key, because somebody may have deleted the
// ConfigMap.
func (o *Order) Next(pod *corev1.Pod, opened map[string]string) Step {
	if !podstate.IsActive(pod) {
		return Step{}
	}
	var step Step
	gates, blocked := o.gates(pod), false
	for i, g := range gates {
		if i > 0 && gates[i-1].priority != g.priority && len(step.Waiting) > 0 && !o.completed(pod) {
			blocked = true
		}
		if _, open := opened[g.key]; !open {
			if blocked {
				return step
			}
			if !slices.Contains(step.Open, g.key) {
				step.Open = append(step.Open, g.key)
			}
		}
		if problem, passed := o.passed(pod, g); !passed && !blocked {
			step.Waiting = append(step.Waiting, problem)
		}
	}
	step.Complete, step.Waiting = true, nil
	return step
}

// passed reports whether containers of lower priority may start in spite of the given container. If the result is
// false, the reason says why the containers must wait.
func (o *Order) passed(pod *corev1.Pod, g gated) (reason.Reason, bool) {
	status := podstate.ContainerStatus(pod, g.container.Name)
	waiting := reason.Reason{
		Code: LaunchNotReady, Object: object(pod), Path: fmt.Sprintf("spec.containers[%s]", g.container.Name),
		Detail: fmt.Sprintf("containers below priority %d wait until it is ready", g.priority),
	}
	if status == nil || status.Ready {
		return waiting, status != nil
	}
	end := status.State.Terminated
	if end == nil || podstate.IsRestarted(pod, g.container, end.ExitCode) {
		return waiting, false
	}
	if end.ExitCode == 0 {
		return reason.Reason{}, true
	}
	waiting.Code = LaunchFailed
	waiting.Detail = fmt.Sprintf(
		"it ended with code %d and is not started again; containers below priority %d never start",
		end.ExitCode, g.priority)
	waiting.Remedy = "recreate the Pod"
	return waiting, false
}
