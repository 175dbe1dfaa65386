package podstate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// WhyNotReady says why an active or terminating Pod is not ready, according to the Pod's status and metadata: because
// of finalizers, the scheduler, a container or a readiness gate. The result is empty if the Pod's status gives no
// reason.
func WhyNotReady(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		if len(pod.Finalizers) == 0 {
			return ""
		}
		return "finalizers: " + strings.Join(pod.Finalizers, ", ")
	}
	if c := Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return sentence(cmp.Or(c.Reason, "not scheduled"), c.Message)
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing" {
			return sentence("container "+status.Name+" "+waiting.Reason, waiting.Message)
		}
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if IsTrue(pod, corev1.ContainersReady) && !IsTrue(pod, gate.ConditionType) {
			return "readiness gate " + string(gate.ConditionType) + " is not open"
		}
	}
	if c := Condition(pod, corev1.PodReady); c != nil && c.Status != corev1.ConditionTrue {
		return sentence(c.Reason, c.Message)
	}
	return ""
}

// sentence joins a reason and a message; either may be empty.
func sentence(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
