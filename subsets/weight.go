package subsets

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// byWeight fills the subsets in proportion to their weights, and returns the remaining demand.
func (r *Rules) byWeight(spans []span, states []State, demand int) int {
	f := filling{rules: r, has: make([]int, len(spans)), caps: make([]int, len(spans)), old: make([]int, len(spans))}
	for i := range spans {
		now := stateOf(states, i)
		f.has[i], f.caps[i], f.old[i] = spans[i].c, spans[i].counted, now.Replicas
		if r.config.Stay {
			f.caps[i] = max(f.has[i], min(now.Settled, f.caps[i]))
		}
	}
	if r.config.Stay { // first the settled Pods, as far as there is demand
		demand = f.fill(demand)
		for i := range spans {
			f.caps[i] = spans[i].counted
		}
	}
	left := f.fill(demand)
	for i := range spans {
		s := &spans[i]
		s.n, s.c = f.has[i], f.has[i]
		s.short = s.n == s.total
	}
	return left
}

// filling gives Pods to the subsets that are furthest below their weight, as if one after the other.
type filling struct {
	rules *Rules
	// has are the Pods of each subset, caps the most that a subset takes, old the present Pods.
	has, caps, old []int
}

// fill gives out as many Pods as the subsets take, and returns the rest.
//
// The next Pod goes to the subset with the least (2*has+1)/weight (the method of Webster and Sainte-Laguë). Millions of
// Pods are not given out one by one: subsets filled to a common level have got all Pods with (2*has+1)/weight up to the
// level, and a binary search finds the highest level that does not need too many Pods. Levels have the distance of
// 1/heaviest, so between two levels each subset gets a single Pod at most.
func (f *filling) fill(amount int) int {
	if amount <= 0 {
		return amount
	}
	room, total, heaviest := 0, amount, uint64(1)
	for i := range f.has {
		room += max(f.caps[i]-f.has[i], 0)
		total += f.has[i]
		heaviest = max(heaviest, f.weight(i))
	}
	if room <= amount {
		for i := range f.has {
			f.has[i] = max(f.has[i], f.caps[i])
		}
		return amount - room
	}
	low, high := uint64(0), (2*uint64(total)+1)*heaviest //nolint:gosec // counts of Pods
	for low < high {
		middle := low + (high-low+1)/2
		if f.needed(middle, heaviest, amount) <= amount {
			low = middle
		} else {
			high = middle - 1
		}
	}
	for i := range f.has {
		to := f.at(i, low, heaviest)
		amount -= to - f.has[i]
		f.has[i] = to
	}
	f.last(amount, low+1, heaviest)
	return 0
}

// needed returns how many Pods lift all subsets to the level, or any number above limit.
func (f *filling) needed(level, heaviest uint64, limit int) (sum int) {
	for i := range f.has {
		if sum += f.at(i, level, heaviest) - f.has[i]; sum > limit {
			return sum
		}
	}
	return sum
}

// at returns how many Pods a subset has at a level.
func (f *filling) at(i int, level, heaviest uint64) int {
	if f.caps[i] <= f.has[i] {
		return f.has[i]
	}
	hi, lo := bits.Mul64(level, f.weight(i))
	quotient, _ := bits.Div64(hi, lo, heaviest)      // at most level, as no weight is above the heaviest
	n := int(min((quotient+1)/2, uint64(f.caps[i]))) //nolint:gosec // a count of Pods
	return max(n, f.has[i])
}

// last gives a Pod each to the first of the subsets that get another Pod at the level.
func (f *filling) last(amount int, level, heaviest uint64) {
	if amount == 0 {
		return
	}
	var next []int
	for i := range f.has {
		if f.at(i, level, heaviest) > f.has[i] {
			next = append(next, i)
		}
	}
	slices.SortFunc(next, f.compare)
	for _, i := range next[:min(amount, len(next))] {
		f.has[i]++
	}
}

// compare puts first the subset with the lower quotient. Among equals no Pod moves: for fixed shares the subset with
// more Pods comes first, for weights a subset that has the Pod already.
func (f *filling) compare(i, j int) int {
	a, b := uint64(2*f.has[i]+1)*f.weight(j), uint64(2*f.has[j]+1)*f.weight(i) //nolint:gosec // counts of Pods
	if c := cmp.Compare(a, b); c != 0 {
		return c
	}
	if f.rules.config.Fill == Fixed {
		return cmp.Or(
			cmp.Compare(f.old[j], f.old[i]),
			strings.Compare(f.rules.subsets[j].Name, f.rules.subsets[i].Name),
		)
	}
	switch a, b := f.old[i] > f.has[i], f.old[j] > f.has[j]; {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return cmp.Compare(i, j)
}

func (f *filling) weight(i int) uint64 {
	if f.rules.config.Fill == Fixed {
		return 1
	}
	return uint64(f.rules.subsets[i].Weight) //nolint:gosec // checked to be positive
}
