package sidecarterminator

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podstate"
)

// Concerns reports whether the controller may have work to do on a Pod, now or later: the Pod runs to completion, has
// a sidecar, and has not ended. Caches must keep the environment and the status of such Pods.
func Concerns(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || hasEnded(pod) && !isMarked(pod) {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return roleOf(&c).isSidecar() })
}

// role contains what a container's environment variables request of the controller.
type role struct {
	stop   bool   // the container must be stopped on ordinary Nodes
	ignore bool   // the exit code is ignored
	image  string // replacement image for virtual Nodes
}

func (r role) isSidecar() bool { return r.stop || r.image != "" }

// roleOf reads the literal values of a container's environment. If a name occurs more than once, the last value counts,
// as in the kubelet.
func roleOf(c *corev1.Container) (r role) {
	for i := range c.Env {
		switch value := c.Env[i].Value; c.Env[i].Name {
		case apps.EnvTerminateSidecar:
			r.stop = strings.EqualFold(value, "true")
		case apps.EnvTerminateSidecarImage:
			r.image = value
		case apps.EnvIgnoreExitCode:
			r.ignore = strings.EqualFold(value, "true")
		}
	}
	r.ignore = r.ignore && r.stop
	return r
}

// container is a container of a Pod, with its role and its status.
type container struct {
	role

	name, runs string // runs is the image in the spec
	status     *corev1.ContainerStatus
	restarts   bool // the container has ended, and the kubelet will restart it
}

func (c *container) hasEnded() bool { return c.status.State.Terminated != nil }

func (c *container) exitCode() int32 { return c.status.State.Terminated.ExitCode }

// hasStarted reports whether the container has been started at least once.
func (c *container) hasStarted() bool { return c.status.ContainerID != "" }

// stuckFor returns the reason why a waiting container will not start soon, or "".
func (c *container) stuckFor() string {
	waiting := c.status.State.Waiting
	if waiting == nil || slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waiting.Reason) {
		return ""
	}
	return waiting.Reason
}

// containersOf returns the Pod's containers, in the order of the spec. The result is empty unless the Pod's status has
// exactly one entry for each container.
func containersOf(pod *corev1.Pod) (mains, sidecars []container) {
	if len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return nil, nil
	}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == spec.Name })
		if at < 0 {
			return nil, nil
		}
		c := container{role: roleOf(spec), name: spec.Name, runs: spec.Image, status: &pod.Status.ContainerStatuses[at]}
		c.restarts = c.hasEnded() && podstate.IsRestarted(pod, spec, c.exitCode())
		if c.isSidecar() {
			sidecars = append(sidecars, c)
		} else {
			mains = append(mains, c)
		}
	}
	return mains, sidecars
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isMarked reports whether the controller, not the kubelet, has set the phase. Sidecars may then still run.
func isMarked(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == apps.ConditionSidecarTerminated && c.Status == corev1.ConditionTrue
	})
}
