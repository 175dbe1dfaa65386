package kruise

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/podstate"
)

// Dated returns the Pods with a time in each condition PodScheduled, and the times to remember for the next pass. A Pod
// created with scheduling gates gets the condition without a time, and keeps the condition as False after the last gate
// is gone: nothing in the Pod tells since when the scheduler has tried. Such a Pod counts as unschedulable since the
// first pass in which the cache shows the scheduler's answer. Pods are copied where a time is added.
func Dated(pods []*corev1.Pod, before map[types.UID]time.Time, now time.Time) (dated []*corev1.Pod, after map[types.UID]time.Time) {
	dated = pods
	for i, pod := range pods {
		c := podstate.Condition(pod, corev1.PodScheduled)
		if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable || !c.LastTransitionTime.IsZero() {
			continue
		}
		since, known := before[pod.UID]
		if !known {
			since = now
		}
		if after == nil {
			dated, after = slices.Clone(pods), map[types.UID]time.Time{}
		}
		after[pod.UID], dated[i] = since, pod.DeepCopy()
		podstate.Condition(dated[i], corev1.PodScheduled).LastTransitionTime = metav1.NewTime(since)
	}
	return dated, after
}
