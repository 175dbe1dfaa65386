// Package podstate answers "what state is this Pod in?": active, ready, available, at which revision. Every package
// of the kit, and every controller built from the kit, reads a Pod's state through package podstate, so that all of
// these agree about a Pod.
//
// All functions only read an object, except FromTemplate, which makes a Pod. The reading functions take pointers to
// cached objects and never modify them.
package podstate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsActive reports whether the Pod counts for its owner: the Pod has not ended and is not being deleted.
func IsActive(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !HasEnded(pod) }

// HasEnded reports whether the Pod's containers have stopped for good: the phase is Succeeded or Failed.
func HasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsScheduled reports whether the Pod is assigned to a node.
func IsScheduled(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

// IsReported reports whether the Pod's node has reported any container, in any state. Until then, scheduler and
// kubelet still have to write the Pod's status, and a status write by another client would conflict with their
// writes.
func IsReported(pod *corev1.Pod) bool { return len(pod.Status.ContainerStatuses) > 0 }

// IsReady reports whether the Pod runs and the Ready condition is True.
func IsReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && IsTrue(pod, corev1.PodReady)
}

// Available reports whether the Pod has been ready for at least minReady at the instant now. If the Pod has not been
// ready for long enough, wait is the missing time; otherwise wait is zero.
func Available(pod *corev1.Pod, minReady time.Duration, now time.Time) (ok bool, wait time.Duration) {
	if !IsReady(pod) {
		return false, 0
	}
	if minReady <= 0 {
		return true, 0
	}
	since := Condition(pod, corev1.PodReady).LastTransitionTime
	if since.IsZero() {
		return false, minReady
	}
	if wait = since.Add(minReady).Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}

// FromTemplate returns a Pod made from a template for the owner; gates are added as readiness gates. The template is
// not modified. The caller must set Name or GenerateName.
func FromTemplate(template *corev1.PodTemplateSpec, namespace string, owner metav1.OwnerReference, gates ...corev1.PodConditionType) *corev1.Pod {
	t := template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: t.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	for _, gate := range gates {
		if !HasGate(pod, gate) {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
		}
	}
	return pod
}

// Condition returns the Pod's condition of a type, nil if the Pod has none. The pointer refers into the Pod, so do not
// modify the condition.
func Condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// IsTrue reports whether the Pod has the condition with status True.
func IsTrue(pod *corev1.Pod, t corev1.PodConditionType) bool {
	c := Condition(pod, t)
	return c != nil && c.Status == corev1.ConditionTrue
}

// HasGate reports whether the Pod's spec lists the readiness gate.
func HasGate(pod *corev1.Pod, gate corev1.PodConditionType) bool {
	for i := range pod.Spec.ReadinessGates {
		if pod.Spec.ReadinessGates[i].ConditionType == gate {
			return true
		}
	}
	return false
}

// GateOpen reports whether a readiness gate does not keep the Pod from being ready: the condition is absent or True.
func GateOpen(pod *corev1.Pod, gate corev1.PodConditionType) bool {
	c := Condition(pod, gate)
	return c == nil || c.Status == corev1.ConditionTrue
}

// Container returns the spec of a container or of a native sidecar (an init container with restart policy Always), nil
// if the Pod has no container with the name. The pointer refers into the Pod, so do not modify the container.
func Container(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name && IsNativeSidecar(c) {
			return c
		}
	}
	return nil
}

// ContainerStatus returns the status of a container or init container, nil if the node has not reported the container.
// The pointer refers into the Pod, so do not modify the status.
func ContainerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		if pod.Status.InitContainerStatuses[i].Name == name {
			return &pod.Status.InitContainerStatuses[i]
		}
	}
	return nil
}

// IsNativeSidecar reports whether an init container is a native sidecar, which keeps running while the containers run
// (KEP-753).
func IsNativeSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// MaxRestarts returns the highest restart count among the Pod's containers.
func MaxRestarts(pod *corev1.Pod) int32 {
	var highest int32
	for i := range pod.Status.ContainerStatuses {
		highest = max(highest, pod.Status.ContainerStatuses[i].RestartCount)
	}
	return highest
}

// ReadySince returns when the Pod's Ready condition last became True, or the zero time if the Pod is not ready.
func ReadySince(pod *corev1.Pod) metav1.Time {
	if c := Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime
	}
	return metav1.Time{}
}

// IsRestarted reports whether the kubelet restarts a container that has ended with the exit code. The container's first
// matching restart rule decides, then the container's restart policy, then the Pod's restart policy
// (ContainerShouldRestart in pkg/api/v1/pod/util.go, KEP-5307). An unknown policy means Always.
func IsRestarted(pod *corev1.Pod, container *corev1.Container, exitCode int32) bool {
	policy := pod.Spec.RestartPolicy
	if container.RestartPolicy != nil {
		for i := range container.RestartPolicyRules {
			if rule := &container.RestartPolicyRules[i]; matches(rule.ExitCodes, exitCode) {
				return true // all actions that rules can name restart the container
			}
		}
		policy = corev1.RestartPolicy(*container.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	}
	return true
}

func matches(codes *corev1.ContainerRestartRuleOnExitCodes, exitCode int32) bool {
	if codes == nil {
		return false
	}
	switch among := slices.Contains(codes.Values, exitCode); codes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return among
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !among
	}
	return false
}
