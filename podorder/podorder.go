// Package podorder answers "which Pod first, to update and to delete?"
//
// Each order is a value with a Sort method: [Update] for Pods waiting for their update, [Deletion] for Pods that may be
// deleted. Their parts ([Priority], [Scatter]) are compiled once from users' input; invalid input gives an error.
//
// # Priority and Pods without a key
//
// If the priority is made by CompileOrder, Pods that have none of the labels come before all Pods that have one. The
// descriptions of OpenKruise's API say the opposite (Pods with a label first), but every release of OpenKruise behaves
// like package podorder, and users have configured rollouts for this behavior.
//
// Sort reorders the given slice, never copies or modifies a Pod, and takes O(n log n) time. Compiled values are
// immutable and safe for concurrent use; no function reads a clock or an API.
package podorder

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// facts are the compared properties of a Pod, read once per Pod. Properties that only deletions compare are zero for
// updates, and so do not affect the order.
type facts struct {
	stage      uint8 // bits for assigned, phase, available and ready, the most significant first
	restarts   int32
	cost       int32
	rank       float64
	readySince int64
	created    int64
}

// These are the bits of facts.stage; the phase takes two bits.
const (
	stageReady     = 1 << 0
	stageAvailable = 1 << 1
	stageUnknown   = 1 << 2
	stageRunning   = 2 << 2
	stageAssigned  = 1 << 4
)

func factsOf(pod *corev1.Pod) facts {
	f := facts{restarts: podstate.MaxRestarts(pod), created: instant(pod.CreationTimestamp.Time)}
	if podstate.IsScheduled(pod) {
		f.stage |= stageAssigned
	}
	switch pod.Status.Phase {
	case corev1.PodUnknown:
		f.stage |= stageUnknown
	case corev1.PodRunning:
		f.stage |= stageRunning
	}
	if podstate.IsReady(pod) {
		f.stage |= stageReady
		f.readySince = instant(podstate.ReadySince(pod).Time)
	}
	return f
}

// instant makes a time comparable as a number. A zero time counts as later than all other times.
func instant(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// compare orders by lower stage and cost first, then by higher rank, later readiness, more restarts and later creation.
func (f *facts) compare(g *facts) int {
	switch {
	case f.stage != g.stage:
		return cmp.Compare(f.stage, g.stage)
	case f.cost != g.cost:
		return cmp.Compare(f.cost, g.cost)
	case f.rank != g.rank:
		return cmp.Compare(g.rank, f.rank)
	case f.readySince != g.readySince:
		return cmp.Compare(g.readySince, f.readySince)
	case f.restarts != g.restarts:
		return cmp.Compare(g.restarts, f.restarts)
	}
	return cmp.Compare(g.created, f.created)
}

// sorted returns the numbers 0 to n-1, sorted stably by compare.
func sorted(n int, compare func(a, b int32) int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if c := compare(a, b); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	return order
}

// arrange puts pods into the order of their indices.
func arrange(pods []*corev1.Pod, order []int32) {
	out := make([]*corev1.Pod, len(pods))
	for to, from := range order {
		out[to] = pods[from]
	}
	copy(pods, out)
}
