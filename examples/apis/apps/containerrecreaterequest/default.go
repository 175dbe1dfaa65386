// Package containerrecreaterequest answers "what does the API do with a ContainerRecreateRequest written by a user: the
// defaults and the refusals?"
//
// A request is about the Pod's state at the time of the request. So the values copied from the Pod, and refusals
// because of the Pod, depend on the Pod and its Node. Callers look up both for [Complete] and [ValidatePod]. [Default]
// and [ValidateCreate] have the rules for the request alone.
//
// The functions are pure and work on v1beta1, the hub; webhooks for v1alpha1 convert first. Admission is stricter than
// in OpenKruise 1.9 against values refused by v1beta1: minStartedSeconds and ttlSecondsAfterFinished must not be
// negative.
package containerrecreaterequest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// DefaultFailurePolicy is the default of OpenKruise 1.9.
const DefaultFailurePolicy = v1beta1.ContainerRecreateRequestFailurePolicyFail

// Default sets the fields left out by the user, without lookups. Default is idempotent.
func Default(obj *v1beta1.ContainerRecreateRequest) {
	if obj.Spec.Strategy == nil {
		obj.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{}
	}
	if obj.Spec.Strategy.FailurePolicy == "" {
		obj.Spec.Strategy.FailurePolicy = DefaultFailurePolicy
	}
}

// Complete copies the Pod's facts for the node agent onto a valid, defaulted new request, and adds labels for the agent
// to find the request. nodeLabels are the labels of the Pod's Node.
//
// An HTTP hook without a host gets the Pod's address: the meaning is the same, and the agent has no other way to learn
// the address.
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
