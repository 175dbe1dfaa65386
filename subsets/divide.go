package subsets

import (
	"fmt"
	"math"
	"strconv"

	"github.com/workloadkit/workloadkit/reason"
)

// Standing is the state of a subset that decides whether the subset gets further Pods.
type Standing string

const (
	// Open subsets get Pods. The zero Standing means open, too.
	Open Standing = "Open"
	// Closed subsets get no further Pods, because Pods of the subset could not be scheduled. See Policy.Next.
	Closed Standing = "Closed"
	// OnTrial subsets were closed and are open again, or are new in a workload with Pods. If Config.Reserve is set, the
	// new Pods of such a subset have substitutes in other subsets until the new Pods have settled. Otherwise OnTrial
	// means Open.
	OnTrial Standing = "OnTrial"
)

// State is the present state of a subset. The zero value is a new, open subset.
type State struct {
	// Replicas is the number of Pods that the last division gave the subset.
	Replicas int
	// Settled is the number of Pods that keep their place. The caller decides which Pods count: the Pods bound to a
	// Node, or the Pods that are ready. If only ready Pods count, a Pod that is unready for a moment loses its place
	// in a closed subset.
	Settled int
	// Standing says whether the subset takes further Pods. Required if Config.Reserve is set: a new subset in a
	// workload with Pods is OnTrial, and an Open subset would take Pods from the other subsets before the new Pods run.
	Standing Standing
	// If Hold is set, a closed subset keeps Replicas Pods even if fewer have settled: a workload that deletes settled
	// Pods when its number of replicas is lowered must not lose one settled Pod after the other. If Config.Stay is set,
	// settled Pods of other subsets take precedence over these Pods. If Config.Reserve is set, the subset keeps the Pods
	// in any case.
	Hold bool
	// Capacity is the number of Pods, including the present Pods, that fit into the subset; nil if unknown.
	Capacity *int
}

// isHeld reports whether the subset keeps Pods that have not settled.
func (s *State) isHeld() bool { return s.Hold && s.Standing == Closed }

// Division says how many Pods each subset gets.
type Division struct {
	// Replicas are the numbers of Pods, in the order of the subsets.
	Replicas []int
	// Reserved are the numbers of Pods in Replicas that are expected to stay pending, and that have substitutes in
	// other subsets. Nil unless Config.Reserve is set.
	Reserved []int
	// Left is the number of replicas for which no subset has a place. The sum of Replicas minus the sum of Reserved,
	// plus Left, is the number of replicas that was divided.
	Left int
	// Limits say which subsets should have got more Pods, and why these subsets did not. Only the first ten are listed.
	Limits reason.List

	subsets []compiled
	full    []bool // the subset is closed, and has all Pods that the subset may have
}

// Places converts Replicas for Pick, Rank and Policy.Take, which put a new Pod into a subset with a free place. A
// closed subset takes a new Pod only for its minimum, or if Config.Reserve is set.
func (d Division) Places() []Place {
	out := make([]Place, len(d.Replicas))
	for i, n := range d.Replicas {
		out[i] = Place{Name: d.subsets[i].Name, Max: n, Closed: d.full[i], Path: d.subsets[i].path}
	}
	return out
}

// span is the range of possible numbers of Pods for a subset in a division.
type span struct {
	least, most int // minimum and maximum set by the user
	open        int // the largest number of Pods, if the subset were open
	total       int // the largest number of Pods now
	counted     int // the largest number of Pods that count as replicas; further Pods need substitutes
	n, c        int // number of Pods given so far, and how many of these count
	short       bool
}

// give gives the subset at most want more Pods, and not more than demand, the number of replicas not yet divided.
// give returns the remaining demand.
func (s *span) give(want, demand int) int {
	want = max(min(want, demand), 0)
	counts := min(want, s.counted-s.c)
	s.n, s.c = s.n+want, s.c+counts
	return demand - counts
}

// Divide divides replicas among the subsets. states are the present states in the order of the subsets, or nil for a
// new workload. The same input always gives the same division, and dividing again after the division was carried out
// changes nothing.
//
// Minimums come first, in the order of the subsets, until no replicas remain. If Config.Stay is set, settled Pods
// come next, then the Pods of closed subsets with Hold; then Config.Fill decides. A closed subset keeps its settled
// Pods and its minimum: if fewer Pods than the minimum have settled there, a settled Pod of another subset may become
// surplus. No maximum is ever exceeded. If there are no subsets, all replicas are Left.
//
// The error is a reason: InvalidState, BoundsCross, SharesExceed or SharesShort, or partition.InvalidValue. If Divide
// returns an error, the caller should change nothing.
func (r *Rules) Divide(replicas int, states []State) (Division, error) {
	if err := r.check(replicas, states); err != nil {
		return Division{}, err
	}
	spans := make([]span, len(r.subsets))
	for i := range r.subsets {
		lo, hi, err := r.bounds(&r.subsets[i], replicas)
		if err != nil {
			return Division{}, err
		}
		spans[i] = r.span(lo, hi, stateOf(states, i))
	}
	if err := r.checkShares(replicas, spans); err != nil {
		return Division{}, err
	}
	demand := replicas
	for i := range spans {
		demand = spans[i].give(min(spans[i].least, spans[i].open), demand)
	}
	if r.config.Fill == InOrder {
		demand = r.inOrder(spans, states, demand)
	} else {
		demand = r.byWeight(spans, states, demand)
	}
	d := Division{Replicas: make([]int, len(spans)), Left: demand, subsets: r.subsets, full: make([]bool, len(spans))}
	for i := range spans {
		now := stateOf(states, i)
		d.Replicas[i] = spans[i].n
		d.full[i] = now.Standing == Closed && !r.config.Reserve && spans[i].n <= now.Settled
	}
	if r.config.Reserve {
		d.Reserved = make([]int, len(spans))
		for i := range spans {
			d.Reserved[i] = spans[i].n - spans[i].c
		}
	}
	d.Limits = r.limits(spans, states, demand)
	return d, nil
}

func stateOf(states []State, i int) State {
	if states == nil {
		return State{}
	}
	return states[i]
}

// check returns an error for impossible states.
func (r *Rules) check(replicas int, states []State) error {
	paths := r.config.Paths.orDefaults()
	if r.config.Fill == "" {
		return reason.Reason{
			Code: InvalidSubsets, Path: paths.Subsets, Detail: "the rules were not compiled", Remedy: "call New",
		}
	}
	if replicas < 0 || replicas > math.MaxInt32 {
		return reason.Reason{
			Code: InvalidState, Path: paths.Total, New: strconv.Itoa(replicas), Detail: "no number of replicas",
			Remedy: "use 0 to 2147483647",
		}
	}
	if states != nil && len(states) != len(r.subsets) {
		return reason.Reason{
			Code: InvalidState, Path: paths.Subsets, New: strconv.Itoa(len(states)),
			Detail: fmt.Sprintf("states for %d subsets", len(r.subsets)),
			Remedy: "give a state for each subset, or none",
		}
	}
	for i := range states {
		if r.config.Reserve && states[i].Standing == "" {
			return reason.Reason{
				Code: InvalidState, Path: r.subsets[i].path, Detail: "no standing",
				Remedy: "use Open, Closed, or OnTrial for a new subset in a workload with Pods",
			}
		}
		if wrong := states[i].problem(); wrong != "" {
			return reason.Reason{
				Code: InvalidState, Path: r.subsets[i].path, New: wrong, Detail: "no state of a subset",
				Remedy: "count 0 or more Pods, and use Open, Closed or OnTrial",
			}
		}
	}
	return nil
}

// problem describes what is impossible in a state.
func (s *State) problem() string {
	switch {
	case min(s.Replicas, s.Settled) < 0 || max(s.Replicas, s.Settled) > math.MaxInt32:
		return fmt.Sprintf("%d Pods, %d settled", s.Replicas, s.Settled)
	case s.Capacity != nil && *s.Capacity < 0:
		return fmt.Sprintf("a capacity of %d", *s.Capacity)
	case s.Standing != "" && s.Standing != Open && s.Standing != Closed && s.Standing != OnTrial:
		return strconv.Quote(reason.Shorten(string(s.Standing), 40))
	}
	return ""
}

// checkShares returns an error if fixed shares do not add up to the replicas.
func (r *Rules) checkShares(replicas int, spans []span) error {
	if r.config.Fill != Fixed {
		return nil
	}
	sum, all := 0, true
	for i := range spans {
		if r.subsets[i].Replicas == nil {
			all = false
			continue
		}
		sum += spans[i].least
	}
	why := reason.Reason{
		Path: r.config.Paths.Subsets, New: strconv.Itoa(sum),
		Detail: fmt.Sprintf("the sum of the shares, of %d replicas", replicas),
	}
	switch {
	case sum > replicas:
		why.Code, why.Remedy = SharesExceed, "lower a share, or raise "+r.config.Paths.Total
	case all && sum < replicas:
		why.Code, why.Remedy = SharesShort, "raise a share, or leave a subset without share"
	default:
		return nil
	}
	return why
}

// span returns the range of a subset, from its bounds and its state.
func (r *Rules) span(lo, hi int, now State) span {
	s := span{least: lo, most: hi, open: hi}
	if now.Capacity != nil {
		s.open = min(hi, *now.Capacity)
	}
	lo = min(lo, s.open)
	s.total, s.counted = s.open, s.open
	switch {
	case now.Standing == Closed && r.config.Reserve:
		s.total, s.counted = max(lo, min(max(now.Replicas, now.Settled), s.open)), min(now.Settled, s.open)
	case now.Standing == Closed:
		keeps := now.Settled
		if now.isHeld() {
			keeps = max(keeps, now.Replicas)
		}
		s.total = max(lo, min(keeps, s.open))
		s.counted = s.total
	case now.Standing == OnTrial && r.config.Reserve:
		s.counted = min(now.Settled, s.open)
	}
	return s
}

// inOrder fills one subset after the other, and returns the number of replicas not divided yet.
func (r *Rules) inOrder(spans []span, states []State, demand int) int {
	if r.config.Stay {
		for i := range spans {
			s := &spans[i]
			demand = s.give(min(stateOf(states, i).Settled, s.total)-s.n, demand)
		}
		for i := range spans {
			if s, now := &spans[i], stateOf(states, i); now.isHeld() {
				demand = s.give(min(now.Replicas, s.total)-s.n, demand)
			}
		}
	}
	for i := range spans {
		s := &spans[i]
		s.short = demand > s.total-s.n
		demand = s.give(s.total-s.n, demand)
	}
	return demand
}

// limits gives the reasons why subsets did not get more Pods. left is the number of replicas without a place.
func (r *Rules) limits(spans []span, states []State, left int) reason.List {
	var out reason.List
	if len(spans) == 0 && left > 0 {
		add(&out, reason.Reason{
			Code: MaxReached, Path: r.config.Paths.Subsets, Detail: "there is no subset", Remedy: "add a subset",
		})
	}
	for i := range spans {
		s, subset := &spans[i], &r.subsets[i]
		if s.n < s.least {
			add(&out, reason.Reason{
				Code: MinUnmet, Path: subset.leastPath(), New: strconv.Itoa(s.least),
				Detail: fmt.Sprintf("%d Pods for this subset", s.n),
				Remedy: "raise " + r.config.Paths.Total + ", or make room in the subset",
			})
		}
		if left > 0 || s.short && s.total < s.open {
			add(&out, subset.limit(s, stateOf(states, i)))
		}
	}
	return out
}

// limit returns the reason why a subset has no more Pods.
func (s *compiled) limit(now *span, state State) reason.Reason {
	switch {
	case now.counted < now.open:
		return reason.Reason{
			Code: SubsetClosed, Path: s.path, New: string(state.Standing),
			Detail: fmt.Sprintf("%d of %d Pods have settled", state.Settled, max(state.Replicas, state.Settled)),
			Remedy: "make room in the subset",
		}
	case now.open < now.most:
		return reason.Reason{
			Code: CapacityReached, Path: s.path, New: strconv.Itoa(now.open), Detail: "no further Pod fits",
			Remedy: "make room in the subset",
		}
	}
	return reason.Reason{
		Code: MaxReached, Path: s.mostPath(), New: strconv.Itoa(now.most),
		Remedy: "raise the maximum, or add a subset without",
	}
}

func (s *compiled) leastPath() string {
	if s.Replicas != nil {
		return s.sharePath
	}
	return s.minPath
}

func (s *compiled) mostPath() string {
	if s.Replicas != nil {
		return s.sharePath
	}
	return s.maxPath
}
