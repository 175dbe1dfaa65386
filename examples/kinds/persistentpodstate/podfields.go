package persistentpodstate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
)

// podFields copies into the cache the fields of Pods of StatefulSets and similar workloads that may be recorded, and
// the condition Ready, because the controller records only ready Pods.
func podFields(kept, pod *corev1.Pod) {
	if _, _, ok := controllerOf(pod); !ok {
		return
	}
	if _, _, numbered := ordinals.ParseName(pod.Name); !numbered {
		return
	}
	kept.Annotations = pod.Annotations
	if ready := podstate.Condition(pod, corev1.PodReady); ready != nil && len(kept.Status.Conditions) == 0 {
		kept.Status.Conditions = []corev1.PodCondition{*ready}
	}
}
