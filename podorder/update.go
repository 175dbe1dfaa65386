package podorder

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Update is the order of updates. With the zero value, Pods that do not serve come first.
//
// The order is made in steps. Each step is stable: a step without an opinion keeps the order of the step before.
type Update struct {
	// AsGiven begins with the given order, for Pods with an order of their own, such as ordinals. If false, Pods are
	// sorted first: not assigned to a node; phase Pending, then Unknown, then Running; not ready; ready more recently;
	// more container restarts; newer.
	AsGiven bool
	// Priority goes next. The zero value changes nothing.
	Priority Priority
	// Scatter goes after Priority. The zero value changes nothing.
	Scatter Scatter
	// First reports Pods that go before all others, such as Pods with a begun update. Nil reports none.
	First func(*corev1.Pod) bool
	// Rest is the remaining rest of a Pod, for example after a refused update. Resting Pods go behind all others, even if
	// First reports them, the shortest rest first, so that resting Pods do not use up the budget of others. Nil is none.
	Rest func(*corev1.Pod) time.Duration
}

// Sort puts the first Pods to update to the front. waiting are the Pods still to be updated. all are all Pods of the
// workload, waiting Pods included, for Scatter: their proportion keeps the spread the same in each step of a rollout.
// all may be nil without Scatter.
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

// byService sorts by service, the least serving Pods first.
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

// front moves the Pods reported by first to the front, keeping the order within both parts. O(n).
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
