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
	if r.config.Stay { // first keep the settled Pods, as long as replicas remain
		demand = f.fill(demand)
		for i := range spans {
			if f.caps[i] = f.has[i]; states != nil && states[i].isHeld() {
				f.caps[i] = max(f.has[i], min(states[i].Replicas, spans[i].counted))
			}
		}
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

// filling distributes Pods as if one Pod after the other went to the subset that is furthest below its weight.
type filling struct {
	rules *Rules
	// has are the numbers of Pods given to the subsets so far, caps the largest allowed numbers, and old the present
	// numbers.
	has, caps, old []int
}

// fill distributes as many of the Pods as the subsets can get, and returns how many remain.
//
// The next Pod goes to the subset with the least (2*has+1)/weight (the method of Webster and Sainte-Laguë). To be fast
// for millions of Pods, fill does not distribute Pods one by one: filling all subsets to a common level gives each
// subset all Pods with (2*has+1)/weight up to the level, and a binary search finds the highest level that does not need
// too many Pods. The levels tried are multiples of 1 divided by the greatest weight, so from one level to the next each
// subset gets at most a single Pod.
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
	low, high := uint64(0), (2*uint64(total)+1)*heaviest //nolint:gosec // the numbers fit into uint64
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

// needed returns how many Pods fill all subsets to the level; if more than limit, any number above limit.
func (f *filling) needed(level, heaviest uint64, limit int) (sum int) {
	for i := range f.has {
		if sum += f.at(i, level, heaviest) - f.has[i]; sum > limit {
			return sum
		}
	}
	return sum
}

// at returns how many Pods subset i has when filled to a level.
func (f *filling) at(i int, level, heaviest uint64) int {
	if f.caps[i] <= f.has[i] {
		return f.has[i]
	}
	hi, lo := bits.Mul64(level, f.weight(i))
	// The quotient is at most level, because heaviest is the greatest weight.
	quotient, _ := bits.Div64(hi, lo, heaviest)
	n := int(min((quotient+1)/2, uint64(f.caps[i]))) //nolint:gosec // caps[i] is an int, and n is not larger
	return max(n, f.has[i])
}

// last gives the remaining Pods to subsets that would get another Pod at the next level: a single Pod for each, in
// the order of compare.
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

// compare orders the subset with the lower quotient first. Among subsets with equal quotients, the order avoids
// moving Pods: for fixed shares, the subset with more Pods comes first, and for weights, the subset that has fewer
// Pods in the new division than at present.
func (f *filling) compare(i, j int) int {
	// No number of Pods is negative.
	a, b := uint64(2*f.has[i]+1)*f.weight(j), uint64(2*f.has[j]+1)*f.weight(i) //nolint:gosec // see above
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
	return uint64(f.rules.subsets[i].Weight) //nolint:gosec // New has checked that weights are positive
}
