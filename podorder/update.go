package podorder

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Update is the order in which Pods are updated. The zero value updates first what serves least.
//
// The order is made in steps. Each is stable: it keeps the order of the step before where it has no opinion of its own.
type Update struct {
	// AsGiven begins with the Pods as they are given, for Pods that have an order of their own, such as ordinals. Without it
	// they are sorted first: not assigned to a node; phase Pending, then Unknown, then Running; not ready; ready more
	// recently; more container restarts; newer.
	AsGiven bool
	// Priority goes next. Its zero value changes nothing.
	Priority Priority
	// Scatter goes after Priority. Its zero value changes nothing.
	Scatter Scatter
	// First are Pods that go before all others, such as those whose update has begun. Nil is none.
	First func(*corev1.Pod) bool
	// Rest is for how much longer a Pod is to be left alone, because its update was refused for example. Such Pods go behind all
	// others, also if they are First, and those with the shortest rest first: they must not use up the budget of the others. Nil is none.
	Rest func(*corev1.Pod) time.Duration
}

// Sort puts the Pods that should be updated first to the front. waiting are the Pods that are still to be updated. all are
// all Pods of the workload, waiting ones included, for Scatter: their proportion keeps the spread the same in each step of a
// rollout. It may be nil without Scatter.
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

// byService sorts by what Pods do for their service, the least first.
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

// front moves the Pods for which first is true to the front, keeping the order among them and among the others. O(n).
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
