// Package podorder answers "which Pod first, to update and to delete?"
//
// Each answer is a value with a Sort method: [Update] for the Pods that wait for their update, [Deletion] for those of which
// some are to be deleted. What they are made of ([Priority], [Scatter]) is compiled once from what users write, and refused with an
// error if it makes no sense.
//
// # What priority does to Pods without a key
//
// With an order priority, Pods that have none of the keys come before all that have one. The descriptions of OpenKruise's API
// say the opposite (Pods with a key first, the others behind them), but this is what every release of it does and what
// rollouts were tuned to.
//
// Sort reorders the slice that it is given, never copies or modifies a Pod, and takes O(n log n). Compiled values are
// immutable and safe for concurrent use; nothing here reads a clock or an API.
package podorder

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// facts is what the orders compare, read once per Pod. What only deletion looks at is zero for updates, and so decides
// nothing there.
type facts struct {
	stage      uint8 // what a Pod has achieved, the most telling first: assigned, phase, available, ready
	restarts   int32
	cost       int32
	rank       float64
	readySince int64
	created    int64
}

// The bits of facts.stage; the phase has two.
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

// instant makes a time comparable such that an unset one counts as later than all others.
func instant(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// compare puts first the lower stage and cost; then the higher rank, the later
// readiness, more restarts and the later creation.
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

// sorted returns the numbers 0 to n-1 in a stable order.
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
