package podunavailablebudget

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/policy"
)

// podFields copies into the cache the fields that Serving reads of Pods whose owner is of another API group.
func podFields(kept, pod *corev1.Pod) {
	if nameIn(pod) == "" {
		return
	}
	annotations := maps.Clone(kept.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, key := range append(servingAnnotations(), policy.AnnotationRelatedBudget, policy.AnnotationRelatedBudgetOld, policy.AnnotationOtherBudgets) {
		if value, ok := pod.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	kept.Annotations = annotations
	kept.Spec.ReadinessGates = pod.Spec.ReadinessGates
	kept.Spec.Containers, kept.Spec.InitContainers = containerFields(pod.Spec.Containers), containerFields(pod.Spec.InitContainers)
	kept.Status.Conditions, kept.Status.ObservedGeneration = pod.Status.Conditions, pod.Status.ObservedGeneration
	kept.Status.ContainerStatuses, kept.Status.InitContainerStatuses = pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses
}

// containerFields copies the fields of containers that are compared with the statuses of containers.
func containerFields(list []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy}
	}
	return out
}
