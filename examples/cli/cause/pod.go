package cause

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// podCauses returns the causes why a Pod is not in service, the most important first.
func (f *Facts) podCauses(pod *corev1.Pod) []Cause {
	if pod.DeletionTimestamp != nil {
		return f.deletion(pod)
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return f.ended(pod)
	}
	if pod.Spec.NodeName == "" {
		return []Cause{scheduling(pod)}
	}
	causes := append(f.node(pod), f.containers(pod)...)
	hooks := f.hook(pod)
	if len(causes) > 0 || len(hooks) > 0 {
		return append(causes, hooks...) // readiness gates open only after the containers and the hook
	}
	return gates(pod)
}

func podCause(pod *corev1.Pod, layer Layer, r rank, code reason.Code, detail, remedy string) Cause {
	return Cause{Layer: layer, rank: r, Pods: []string{pod.Name}, Reason: reason.Reason{
		Code: code, Object: reason.ObjectOf("Pod", pod), Detail: detail, Remedy: remedy,
	}}
}

// scheduling returns the cause why a Pod has no Node.
func scheduling(pod *corev1.Pod) Cause {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodScheduled || c.Status == corev1.ConditionTrue {
			continue
		}
		if c.Reason == corev1.PodReasonSchedulingGated {
			names := []string{}
			for _, gate := range pod.Spec.SchedulingGates {
				names = append(names, gate.Name)
			}
			return podCause(pod, Scheduler, unscheduled, reason.Code(c.Reason), c.Message, "have the scheduling gates removed: "+strings.Join(names, ", "))
		}
		// The message continues with texts about preemption and claims for devices, which are left out.
		detail, _, _ := strings.Cut(c.Message, " no new claims to deallocate")
		detail, _, _ = strings.Cut(detail, " preemption: ")
		detail = strings.TrimSuffix(strings.TrimSuffix(detail, ". not found"), ".")
		if claims := pvc.UsedBy(pod); strings.Contains(detail, "PersistentVolumeClaims") && len(claims) > 0 {
			detail += "; the claims of the Pod: " + strings.Join(claims, ", ")
		}
		return podCause(pod, Scheduler, unscheduled, reason.Code(c.Reason), detail, placing(detail))
	}
	name := pod.Spec.SchedulerName
	if name == "" {
		name = corev1.DefaultSchedulerName
	}
	return podCause(pod, Scheduler, unscheduled, NotScheduled, fmt.Sprintf("no scheduler has judged the Pod yet; the Pod names the scheduler %q", name),
		"see whether the scheduler runs, or correct spec.schedulerName")
}

// placing returns the remedy for an unschedulable Pod, derived from the texts of the scheduler's plugins
// (pkg/scheduler/framework/plugins of Kubernetes 1.36).
func placing(message string) string {
	for _, word := range []struct{ text, remedy string }{
		{"persistentvolumeclaim", "create the PersistentVolumeClaim, or correct the claim's name in the template"},
		{"PersistentVolumeClaims", "the claims are bound: see kubectl describe pvc"},
		{"volume node affinity", "a Node that reaches the volume of the claim"},
		{"anti-affinity", "more Nodes, or a weaker anti-affinity"},
		{"topology spread", "room in the topology domains with the fewest Pods, or a weaker constraint"},
		{"node affinity/selector", "a Node with the wanted labels, or another node selector or affinity"},
		{"untolerated taint", "a Node without the taint, or a toleration"},
		{"free ports", "a Node on which the host port is free"},
		{"Insufficient", "Nodes with more free resources, or smaller requests"},
	} {
		if strings.Contains(message, word.text) {
			return word.remedy
		}
	}
	return "make room on a Node that fits, or change what the Pod demands"
}

// node returns a cause if the Pod's Node does not exist or is not ready.
func (f *Facts) node(pod *corev1.Pod) []Cause {
	i := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == pod.Spec.NodeName })
	if i < 0 {
		if !f.IsNodesRead {
			return nil
		}
		return []Cause{podCause(pod, Node, onNode, NodeGone, "the Node "+pod.Spec.NodeName+" does not exist", "the Pod is removed by the controller for lost Nodes, or delete the Pod")}
	}
	for _, c := range f.Nodes[i].Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			detail := fmt.Sprintf("the Node %s is not ready: %s: %s", pod.Spec.NodeName, c.Reason, c.Message)
			return []Cause{podCause(pod, Node, onNode, NodeNotReady, detail, "repair the Node or its kubelet, or delete the Node")}
		}
	}
	return nil
}

// deletion returns the causes why a Pod that is being deleted still exists.
func (f *Facts) deletion(pod *corev1.Pod) []Cause {
	if len(pod.Finalizers) > 0 {
		return []Cause{podCause(pod, Hook, held, FinalizerHolds, "the Pod is being deleted since "+pod.DeletionTimestamp.UTC().Format(time.RFC3339)+"; finalizers: "+strings.Join(pod.Finalizers, ", "), "the owners of the finalizers end their work and remove the finalizers")}
	}
	if causes := f.node(pod); len(causes) > 0 {
		return causes
	}
	left := pod.DeletionTimestamp.Sub(f.Now).Round(time.Second)
	if left > 0 {
		return []Cause{podCause(pod, Node, asked, Terminating, "the containers stop", fmt.Sprintf("at the latest in %s", left))}
	}
	return []Cause{podCause(pod, Node, onNode, Terminating, fmt.Sprintf("the grace period has ended %s ago, and the kubelet has not removed the Pod", -left), "see the kubelet and the container runtime of Node "+pod.Spec.NodeName)}
}

// ended returns the cause why a Pod has ended.
func (f *Facts) ended(pod *corev1.Pod) []Cause {
	if pod.Status.Phase == corev1.PodSucceeded && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return nil
	}
	code, detail := reason.Code(pod.Status.Reason), pod.Status.Message
	if code == "" {
		code = reason.Code("Pod" + string(pod.Status.Phase))
	}
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 && detail == "" {
			detail = fmt.Sprintf("container %s: exit code %d %s %s", c.Name, t.ExitCode, t.Reason, t.Message)
		}
	}
	return []Cause{podCause(pod, Runtime, inContainer, code, strings.TrimSpace(detail), "the controller replaces the Pod, or delete the Pod")}
}
