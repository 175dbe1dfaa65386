package podstate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Outcome is the state of ephemeral containers of a Pod.
type Outcome string

const (
	// Absent means that the Pod has no such ephemeral container.
	Absent Outcome = ""
	// Unreported means that the node has reported neither that a container waits nor that the container has started,
	// and no container has failed.
	Unreported Outcome = "Unreported"
	// Waiting means that a container is waiting to be started, and no container runs.
	Waiting Outcome = "Waiting"
	// Running means that a container runs.
	Running Outcome = "Running"
	// Succeeded means that all containers have ended successfully.
	Succeeded Outcome = "Succeeded"
	// Failed means that a container has ended with an error, or that the node's runtime cannot run the container.
	Failed Outcome = "Failed"
)

// HasEnded reports whether all containers have ended.
func (o Outcome) HasEnded() bool { return o == Succeeded || o == Failed }

// Ephemeral returns the combined outcome of the ephemeral containers for which mine returns true. Kubernetes never
// restarts an ephemeral container. obstacle names the first container that cannot start, with the reason reported by
// the node.
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

// outcomeOf reads the state of a container. why is the reason why the container waits, unless the wait is the usual
// preparation.
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
