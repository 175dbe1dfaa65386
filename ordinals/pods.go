package ordinals

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// OfPod returns the ordinal of the owner's Pod, and false for a Pod without such a name. OfPod looks only at the name:
// the caller must know whether the owner controls the Pod.
func OfPod(owner string, pod *corev1.Pod) (int, bool) {
	name, ordinal, ok := ParseName(pod.Name)
	if !ok || name != owner {
		return 0, false
	}
	return ordinal, true
}

// SortPods sorts the owner's Pods by ordinal, the lowest first. Pods without a name of the owner's Pods come last, in
// their earlier order. SortPods reorders the slice and reads each Pod once. O(n log n).
func SortPods(owner string, pods []*corev1.Pod) {
	type numbered struct {
		ordinal int64 // an int may be too small for Max+1
		pod     *corev1.Pod
	}
	list := make([]numbered, len(pods))
	for i, pod := range pods {
		list[i] = numbered{Max + 1, pod}
		if ordinal, ok := OfPod(owner, pod); ok {
			list[i].ordinal = int64(ordinal)
		}
	}
	slices.SortStableFunc(list, func(a, b numbered) int { return cmp.Compare(a.ordinal, b.ordinal) })
	for i := range list {
		pods[i] = list[i].pod
	}
}
