package subsets

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/podstate"
)

// Ranked is a Pod and its deletion cost.
type Ranked struct {
	Pod *corev1.Pod
	// Subset is the name of the Pod's subset, empty if none.
	Subset string
	// Cost is the Pod's deletion cost: Pods with lower costs are deleted first. Costs below 0 are for Pods beyond the
	// maximum of their subset, and for Pods without a subset.
	Cost int
}

// Order says whether the last or the first subsets lose Pods first.
type Order bool

const (
	// LastFirst deletes Pods of the last subset first: the preferred subsets keep their Pods.
	LastFirst Order = false
	// FirstFirst deletes Pods of the first subset first. Use FirstFirst for Pods of an old revision: their replacements
	// are created in the first subset.
	FirstFirst Order = true
)

// Rank returns the active Pods of a workload's revision in the order of deletion, the first Pod to delete in front.
// Pods that have ended or are being deleted are left out. The argument named of is a function that returns the name of
// a Pod's subset, like Matcher.Of.
//
// If there are N subsets, a Pod in the subset with index i costs 100*(N-i), and a Pod beyond the subset's maximum
// costs -100*(i+1). If the order is FirstFirst, i is counted from the last subset. A Pod without subset costs
// -100*(N+1). The Pods beyond the maximum are the Pods that every controller deletes first: without a Node, pending,
// in phase Unknown, not ready, ready more recently, restarted more often, newer. Rank ignores deletion costs that the
// Pods have already.
func Rank(places []Place, pods []*corev1.Pod, of func(*corev1.Pod) string, order Order) []Ranked {
	sorted := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !podstate.IsActive(pod) })
	podorder.Deletion{StateAlone: true}.Sort(sorted)
	at := make(map[string]int, len(places))
	for i := range places {
		at[places[i].Name] = i
	}
	out := make([]Ranked, len(sorted))
	in := make([]int, len(sorted))      // the index of each Pod's subset, -1 if none
	surplus := make([]int, len(places)) // number of Pods beyond the maximum, by subset
	for i, pod := range sorted {
		out[i].Pod, in[i] = pod, -1
		if index, ok := at[of(pod)]; ok {
			out[i].Subset, in[i] = places[index].Name, index
			surplus[index]++
		}
	}
	for i := range places {
		if places[i].isUnlimited() {
			surplus[i] = 0
			continue
		}
		surplus[i] = max(surplus[i]-places[i].Max, 0)
	}
	n := len(places)
	for i := range out {
		index := in[i]
		switch {
		case index < 0:
			out[i].Cost = -100 * (n + 1)
			continue
		case surplus[index] > 0:
			surplus[index]--
			out[i].Cost = -100 * (position(index, n, order) + 1)
			continue
		}
		out[i].Cost = 100 * (n - position(index, n, order))
	}
	slices.SortStableFunc(out, func(a, b Ranked) int { return cmp.Compare(a.Cost, b.Cost) })
	return out
}

func position(index, n int, order Order) int {
	if order == FirstFirst {
		return n - index - 1
	}
	return index
}
