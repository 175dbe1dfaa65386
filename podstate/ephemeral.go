package podstate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Outcome is how far ephemeral containers of a Pod have come.
type Outcome string

const (
	// Absent means that the Pod has no such container.
	Absent Outcome = ""
	// Unreported means that a container has not ended, and the node has reported neither a start nor a wait.
	Unreported Outcome = "Unreported"
	// Waiting means that a container waits for its start, and none runs.
	Waiting Outcome = "Waiting"
	// Running means that a container runs.
	Running Outcome = "Running"
	// Succeeded means that all containers have ended well.
	Succeeded Outcome = "Succeeded"
	// Failed means that a container has ended otherwise, or cannot be run by the node's runtime.
	Failed Outcome = "Failed"
)

// HasEnded reports whether nothing is to come.
func (o Outcome) HasEnded() bool { return o == Succeeded || o == Failed }

// Ephemeral returns the outcome of the ephemeral containers chosen by mine, taken together. Kubernetes never restarts
// such a container. obstacle names the first container that cannot start, with the node's reason.
func Ephemeral(pod *corev1.Pod, mine func(*corev1.EphemeralContainer) bool) (is Outcome, obstacle string) {
	n, count := 0, map[Outcome]int{}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if !mine(c) {
			continue
		}
		n++
		one, why := outcomeOf(pod, c.Name)
		if count[one]++; obstacle == "" && why != "" {
			obstacle = c.Name + ": " + why
		}
	}
	switch {
	case n == 0:
		return Absent, ""
	case count[Failed] > 0:
		return Failed, ""
	case count[Succeeded] == n:
		return Succeeded, ""
	case count[Running] > 0:
		return Running, obstacle
	case count[Waiting] > 0:
		return Waiting, obstacle
	}
	return Unreported, ""
}

// outcomeOf reads the state of a container. why is the reason of a wait for more than the usual work.
func outcomeOf(pod *corev1.Pod, name string) (is Outcome, why string) {
	at := slices.IndexFunc(pod.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if at < 0 {
		return Unreported, ""
	}
	switch state := &pod.Status.EphemeralContainerStatuses[at].State; {
	case state.Terminated != nil && state.Terminated.ExitCode == 0:
		return Succeeded, ""
	case state.Terminated != nil:
		return Failed, ""
	case state.Running != nil:
		return Running, ""
	case state.Waiting == nil:
		return Unreported, ""
	case state.Waiting.Reason == "RunContainerError":
		return Failed, ""
	case slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, state.Waiting.Reason):
		return Waiting, ""
	default:
		return Waiting, state.Waiting.Reason
	}
}
