package kruise

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/podstate"
)

// Dated returns the Pods with a time in each PodScheduled condition, and the times to remember for the next
// reconciliation. If a Pod is created with scheduling gates, the condition has no transition time, even after the
// last gate was removed. So the Pod does not show since when the scheduler has tried. Such a Pod counts as
// unschedulable since the first reconciliation in which the cache shows the condition with the reason Unschedulable.
// Dated copies a Pod before it adds a time.
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
