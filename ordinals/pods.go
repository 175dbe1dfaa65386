package ordinals

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// OfPod returns the ordinal of an owner's Pod, and false if the Pod's name is not of the form "owner-3". OfPod checks
// only the name, not whether the owner controls the Pod.
func OfPod(owner string, pod *corev1.Pod) (int, bool) {
	name, ordinal, ok := ParseName(pod.Name)
	if !ok || name != owner {
		return 0, false
	}
	return ordinal, true
}

// SortPods sorts the owner's Pods by ordinal, the lowest first. Pods whose names have no ordinal of the owner come
// last, in their previous order. SortPods reorders the slice in place, and parses each name once. SortPods takes O(n
// log n) time.
func SortPods(owner string, pods []*corev1.Pod) {
	type numbered struct {
		ordinal int64 // 64 bits because an int may be too small for Max+1
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
