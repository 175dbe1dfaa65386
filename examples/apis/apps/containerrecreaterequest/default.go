// Package containerrecreaterequest answers "what does the API make of a ContainerRecreateRequest somebody writes: what is filled in, what
// is refused?"
//
// A request is about a Pod as it is when the request is made. So what is copied from the Pod, and what is refused because of it, depends on the Pod
// and its Node, which callers look up; [Complete] and [ValidatePod] are given both. What can be told from the request alone is in [Default] and
// [ValidateCreate].
//
// The functions are pure and work on v1beta1, the hub; webhooks for v1alpha1 convert first. Admission is stricter than that of OpenKruise
// 1.9 where a value would be stored that v1beta1 does not take: minStartedSeconds and ttlSecondsAfterFinished must not be negative.
package containerrecreaterequest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// DefaultFailurePolicy is that of OpenKruise 1.9.
const DefaultFailurePolicy = v1beta1.ContainerRecreateRequestFailurePolicyFail

// Default fills in what the user left out and nobody has to look up. It is idempotent.
func Default(obj *v1beta1.ContainerRecreateRequest) {
	if obj.Spec.Strategy == nil {
		obj.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{}
	}
	if obj.Spec.Strategy.FailurePolicy == "" {
		obj.Spec.Strategy.FailurePolicy = DefaultFailurePolicy
	}
}

// Complete copies onto a new request that is valid and has its defaults what the node agent needs to know of the Pod, and labels by which
// the agent finds the request. nodeLabels are those of the Pod's Node.
//
// An HTTP hook without a host gets the Pod's address, which stands for the same and which the agent has no other way to learn.
func Complete(obj *v1beta1.ContainerRecreateRequest, pod *corev1.Pod, nodeLabels map[string]string) {
	if obj.Labels == nil {
		obj.Labels = map[string]string{}
	}
	obj.Labels[apps.LabelRequestActive] = "true"
	obj.Labels[apps.LabelRequestNodeName] = pod.Spec.NodeName
	obj.Labels[apps.LabelRequestPodUID] = string(pod.UID)
	if nodeLabels[apps.LabelNodeType] == apps.NodeTypeVirtualKubelet {
		obj.Labels[apps.LabelNodeType] = apps.NodeTypeVirtualKubelet
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; obj.Spec.Strategy.TerminationGracePeriodSeconds == nil && grace != nil {
		obj.Spec.Strategy.TerminationGracePeriodSeconds = new(*grace)
	}
	for i := range obj.Spec.Containers {
		completeContainer(&obj.Spec.Containers[i], pod)
	}
}

func completeContainer(c *v1beta1.ContainerRecreateRequestContainer, pod *corev1.Pod) {
	if i := indexOf(pod.Spec.Containers, c.Name); i >= 0 {
		if lifecycle := pod.Spec.Containers[i].Lifecycle; lifecycle != nil && lifecycle.PreStop != nil {
			c.PreStop = lifecycle.PreStop.DeepCopy()
			if get := c.PreStop.HTTPGet; get != nil {
				c.Ports = slices.Clone(pod.Spec.Containers[i].Ports)
				if get.Host == "" {
					get.Host = pod.Status.PodIP
				}
			}
		}
	}
	if status := statusOf(pod, c.Name); status != nil {
		c.StatusContext = &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: status.ContainerID, RestartCount: status.RestartCount}
	}
}

func indexOf(containers []corev1.Container, name string) int {
	return slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
}

func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}
