package nodepodprobe

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/podstate"
)

// podFields copies into the cache the fields that the controller needs of Pods whose owner is of another API group:
// the IP address, the condition Initialized, and the conditions for probe results. The containers of such Pods are
// read from the API server when needed, because few Pods have probes: see Reconciler.shapes.
func podFields(kept, pod *corev1.Pod) {
	kept.Status.PodIP = pod.Status.PodIP
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		switch {
		case podstate.Condition(kept, c.Type) != nil:
		case c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue:
			kept.Status.Conditions = append(slices.Clip(kept.Status.Conditions), corev1.PodCondition{Type: c.Type, Status: c.Status})
		case isMark(c):
			kept.Status.Conditions = append(slices.Clip(kept.Status.Conditions), *c)
		}
	}
	for _, key := range []string{apps.AnnotationProbeMarks, apps.AnnotationPodProbeMarkerList} {
		value, ok := pod.Annotations[key]
		if !ok {
			continue
		}
		if kept.Annotations = maps.Clone(kept.Annotations); kept.Annotations == nil {
			kept.Annotations = map[string]string{}
		}
		kept.Annotations[key] = value
	}
}

func isMark(c *corev1.PodCondition) bool {
	switch c.Reason {
	case probing.ConditionSucceeded, probing.ConditionFailed, probing.ConditionUnknown:
		return true
	}
	return false
}

// isWhole reports whether the cache keeps all fields of a Pod. The API server sets spec.dnsPolicy of every Pod, and
// reduced Pods in the cache never have this field.
func isWhole(pod *corev1.Pod) bool { return pod.Spec.DNSPolicy != "" }
