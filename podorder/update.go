package podorder

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Update is the order in which Pods are updated. With the zero value, Pods that are out of service come first.
//
// Sort orders the Pods in several steps. Each step is a stable sort: Pods that a step considers equal keep the order of
// the previous step.
type Update struct {
	// AsGiven keeps the given order as the start, for Pods with an order of their own, such as ordinals. If false, Pods
	// are sorted first: not assigned to a node; phase Pending, then Unknown, then Running; not ready; ready more
	// recently; more container restarts; newer.
	AsGiven bool
	// Priority is the second step of the sort. The zero value does not change the order.
	Priority Priority
	// Scatter is the step of the sort after Priority. The zero value does not change the order.
	Scatter Scatter
	// First reports whether a Pod comes before all other Pods, for example because its update has begun. Nil means that
	// no Pod does.
	First func(*corev1.Pod) bool
	// Rest returns how long a Pod's back-off still lasts, for example after a refused update. Pods in back-off come
	// after all other Pods, even if First reports them, and the shortest back-off comes first, so that these Pods do
	// not use up the budget of other Pods. Nil means that no Pod is in back-off.
	Rest func(*corev1.Pod) time.Duration
}

// Sort moves the Pods to update first to the front of waiting. waiting holds the Pods still to be updated. all holds
// every Pod of the workload, including the waiting Pods, for Scatter: the proportion of matching Pods in all keeps the
// spread the same in each step of a rollout. all may be nil if there is no Scatter.
func (u Update) Sort(waiting, all []*corev1.Pod) {
	if !u.AsGiven {
		byService(waiting)
	}
	u.Priority.sort(waiting)
	u.Scatter.apply(waiting, all)
	if u.First != nil {
		front(waiting, u.First)
	}
	if u.Rest != nil {
		u.restLast(waiting)
	}
}

func (u Update) restLast(pods []*corev1.Pod) {
	rests := make([]time.Duration, len(pods))
	some := false
	for i, pod := range pods {
		rests[i] = max(u.Rest(pod), 0)
		some = some || rests[i] > 0
	}
	if some {
		arrange(pods, sorted(len(pods), func(a, b int32) int { return cmp.Compare(rests[a], rests[b]) }))
	}
}

// byService sorts Pods as documented for AsGiven: Pods not assigned to a node first, and ready Pods last.
func byService(pods []*corev1.Pod) {
	if len(pods) < 2 {
		return
	}
	facts := make([]facts, len(pods))
	for i, pod := range pods {
		facts[i] = factsOf(pod)
	}
	arrange(pods, sorted(len(pods), func(a, b int32) int { return facts[a].compare(&facts[b]) }))
}

// front moves the Pods reported by first to the front, keeping the order within both parts. front takes O(n) time.
func front(pods []*corev1.Pod, first func(*corev1.Pod) bool) {
	var rest []*corev1.Pod
	n := 0
	for _, pod := range pods {
		if first(pod) {
			pods[n] = pod
			n++
			continue
		}
		rest = append(rest, pod)
	}
	copy(pods[n:], rest)
}
