package subsets_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/subsets"
)

// value parses a count or percentage; the result is nil for an empty string.
func value(s string) *intstr.IntOrString {
	if s == "" {
		return nil
	}
	return ptr.To(intstr.Parse(s))
}

func share(name, replicas string) subsets.Subset {
	return subsets.Subset{Name: name, Replicas: value(replicas)}
}

func bounded(name, lo, hi string) subsets.Subset {
	return subsets.Subset{Name: name, Min: value(lo), Max: value(hi)}
}

func weighted(name string, weight int32, lo, hi string) subsets.Subset {
	return subsets.Subset{Name: name, Weight: weight, Min: value(lo), Max: value(hi)}
}

type list []subsets.Subset

var (
	fixed    = subsets.Config{Fill: subsets.Fixed, Rounding: partition.Nearest}
	inOrder  = subsets.Config{Fill: subsets.InOrder, Rounding: partition.Nearest}
	staying  = subsets.Config{Fill: subsets.InOrder, Rounding: partition.Nearest, Stay: true}
	reserve  = subsets.Config{Fill: subsets.InOrder, Rounding: partition.Nearest, Reserve: true}
	byWeight = subsets.Config{Fill: subsets.ByWeight}
)

// settled returns states of open subsets whose Pods have all settled.
func settled(replicas ...int) []subsets.State {
	states := make([]subsets.State, len(replicas))
	for i, n := range replicas {
		states[i] = subsets.State{Replicas: n, Settled: n}
	}
	return states
}

// told returns states of open subsets that have the given numbers of Pods, none of which has settled.
func told(replicas ...int) []subsets.State {
	states := make([]subsets.State, len(replicas))
	for i, n := range replicas {
		states[i] = subsets.State{Replicas: n}
	}
	return states
}

func state(replicas, settled int, standing subsets.Standing) subsets.State {
	return subsets.State{Replicas: replicas, Settled: settled, Standing: standing}
}

// standing sets Open in the states if Config.Reserve is set, because callers must set the Standing then.
func standing(config subsets.Config, states []subsets.State) []subsets.State {
	states = slices.Clone(states)
	for i := range states {
		if config.Reserve && states[i].Standing == "" {
			states[i].Standing = subsets.Open
		}
	}
	return states
}

func roomFor(capacity int) subsets.State { return subsets.State{Capacity: &capacity} }

func TestDivide(t *testing.T) {
	abc := list{share("a", ""), share("b", ""), share("c", "")}
	elastic := list{bounded("a", "2", "4"), bounded("b", "2", "")}
	// Subsets with maximums, and with a minimum.
	two := list{bounded("s0", "", "2"), bounded("s1", "", "2"), bounded("s2", "", "")}
	guaranteed := list{bounded("s0", "1", "2"), bounded("s1", "", "")}
	// Subsets without bounds, and with minimums.
	open := list{bounded("s0", "", ""), bounded("s1", "", ""), bounded("s2", "", "")}
	least := list{bounded("s0", "1", ""), bounded("s1", "1", ""), bounded("s2", "", "")}
	closed, trial := subsets.Closed, subsets.OnTrial
	for _, tc := range []struct {
		name     string
		config   subsets.Config
		subsets  list
		replicas int
		states   []subsets.State
		want     []int
		left     int
	}{
		{"UD-2 50% of 5", fixed, list{share("a", "50%"), share("b", "")}, 5, nil, []int{3, 2}, 0},
		{"UD-2 30% of 5", fixed, list{share("a", "30%"), share("b", "")}, 5, nil, []int{2, 3}, 0},
		{"UD-2 10% of 5", fixed, list{share("a", "10%"), share("b", "")}, 5, nil, []int{1, 4}, 0},
		{"UD-2 9% of 5", fixed, list{share("a", "9%"), share("b", "")}, 5, nil, []int{0, 5}, 0},
		{
			"UD-3 3, 4 and the rest of 10", fixed,
			list{share("a", "3"), share("b", "4"), share("c", "")},
			10, nil,
			[]int{3, 4, 3},
			0,
		},
		{"UD-17 5 over three new subsets", fixed, abc, 5, nil, []int{1, 2, 2}, 0},
		{"UD-17 5 with 3 in the first", fixed, abc, 5, told(3, 0, 0), []int{2, 1, 2}, 0},
		{
			"UD-17 10, a number and a percentage", fixed,
			list{share("a", "2"), share("b", "50%"), share("c", ""), share("d", "")},
			10, nil,
			[]int{2, 5, 1, 2},
			0,
		},
		{
			"UD-17 the later name counts, not the later place", fixed,
			list{share("z", ""), share("b", "")},
			3, nil,
			[]int{2, 1},
			0,
		},
		{"UD-17 all shares are given", fixed, list{share("a", "3"), share("b", "2")}, 5, nil, []int{3, 2}, 0},
		{"UD-19 5", inOrder, elastic, 5, nil, []int{3, 2}, 0},
		{"UD-19 8", inOrder, elastic, 8, nil, []int{4, 4}, 0},
		{"UD-19 3", inOrder, elastic, 3, nil, []int{2, 1}, 0},
		{"UD-19 1", inOrder, elastic, 1, nil, []int{1, 0}, 0},
		{"UD-19 present Pods have no say", inOrder, elastic, 5, settled(0, 5), []int{3, 2}, 0},
		{
			"UD-20 percentages of today's replicas", inOrder,
			list{bounded("a", "20%", "50%"), bounded("b", "", "")},
			5, nil,
			[]int{3, 2},
			0,
		},
		{
			"UD-20 percentages after scaling", inOrder,
			list{bounded("a", "20%", "50%"), bounded("b", "", "")},
			10,
			nil,
			[]int{5, 5},
			0,
		},
		{
			"UD-22 a closed subset keeps what is ready", staying, two, 5,
			[]subsets.State{state(2, 1, closed), state(2, 2, ""), state(1, 1, "")},
			[]int{1, 2, 2},
			0,
		},
		{
			"UD-22 running Pods are not moved", staying, two, 4,
			[]subsets.State{{}, {}, state(4, 4, "")},
			[]int{0, 0, 4},
			0,
		},
		{
			"UD-22 no more than the maximum stays in a closed subset", staying, two, 5,
			[]subsets.State{state(5, 5, closed), {}, {}},
			[]int{2, 2, 1},
			0,
		},
		{
			"UD-22 settled Pods leave each minimum alone", staying,
			list{bounded("a", "", ""), bounded("b", "2", "")},
			5,
			[]subsets.State{state(5, 5, ""), {}},
			[]int{3, 2},
			0,
		},
		{"UD-24 at first", staying, two, 3, nil, []int{2, 1, 0}, 0},
		{
			"UD-24 after the timeout", staying, two, 3,
			[]subsets.State{state(2, 2, ""), state(1, 0, closed), {}},
			[]int{2, 0, 1},
			0,
		},
		{
			"UD-24 scaled to 5 while closed", staying, two, 5,
			[]subsets.State{state(2, 2, ""), state(0, 0, closed), state(1, 1, "")},
			[]int{2, 0, 3},
			0,
		},
		{
			"UD-24 scaled to 4 while closed", staying, two, 4,
			[]subsets.State{state(2, 2, ""), state(0, 0, closed), state(3, 3, "")},
			[]int{2, 0, 2},
			0,
		},
		{"UD-24 recovered and scaled to 5", staying, two, 5, settled(2, 0, 2), []int{2, 1, 2}, 0},
		{"UD-25 at first", staying, guaranteed, 3, nil, []int{2, 1}, 0},
		{
			"UD-25 the guaranteed Pod stays", staying, guaranteed, 3,
			[]subsets.State{state(2, 0, closed), state(1, 1, "")},
			[]int{1, 2},
			0,
		},
		{
			"UD-31 reserved Pods meet no demand", reserve, two, 4,
			[]subsets.State{state(2, 1, closed), {}, {}},
			[]int{2, 2, 1},
			0,
		},
		{
			"UD-31 a closed subset does not grow", reserve, open, 6,
			[]subsets.State{state(2, 1, closed), {}, {}},
			[]int{2, 5, 0},
			0,
		},
		{
			"UD-31 nor beyond its maximum", reserve, two, 6,
			[]subsets.State{state(4, 0, closed), {}, {}},
			[]int{2, 2, 4},
			0,
		},
		{"UD-32 at first", reserve, open, 2, nil, []int{2, 0, 0}, 0},
		{
			"UD-32 the first is closed", reserve, open, 2,
			[]subsets.State{state(2, 0, closed), {}, {}},
			[]int{2, 2, 0},
			0,
		},
		{
			"UD-32 the second, too", reserve, open, 2,
			[]subsets.State{state(2, 0, closed), state(2, 0, closed), {}},
			[]int{2, 2, 2},
			0,
		},
		{
			"UD-32 scaled to 4", reserve, open, 4,
			[]subsets.State{state(2, 0, closed), state(2, 0, closed), state(2, 2, "")},
			[]int{2, 2, 4},
			0,
		},
		{
			"UD-32 back to 2", reserve, open, 2,
			[]subsets.State{state(2, 0, closed), state(2, 0, closed), state(4, 4, "")},
			[]int{2, 2, 2},
			0,
		},
		{
			"UD-32 capacity at 4: on trial, substitutes stay", reserve, open, 4,
			[]subsets.State{state(2, 2, trial), state(2, 0, closed), state(4, 4, "")},
			[]int{4, 2, 2},
			0,
		},
		{
			"UD-32 capacity at 4: new Pods settle", reserve, open, 4,
			[]subsets.State{state(4, 2, closed), state(2, 0, closed), state(2, 2, "")},
			[]int{4, 2, 2},
			0,
		},
		{
			"UD-32 capacity at 4: finally", reserve, open, 4,
			[]subsets.State{state(4, 4, trial), state(2, 0, closed), state(2, 2, "")},
			[]int{4, 0, 0},
			0,
		},
		{
			"UD-33 replicas 2", reserve, least, 2,
			[]subsets.State{state(1, 0, closed), state(1, 0, closed), {}},
			[]int{1, 1, 2},
			0,
		},
		{
			"UD-33 replicas 4", reserve, least, 4,
			[]subsets.State{state(1, 0, closed), state(1, 0, closed), state(2, 2, "")},
			[]int{1, 1, 4},
			0,
		},
		{
			"UD-33 the first recovered, on trial", reserve, least, 4,
			[]subsets.State{state(1, 1, trial), state(1, 0, closed), state(4, 4, "")},
			[]int{4, 1, 3},
			0,
		},
		{
			"UD-33 the first recovered, finally", reserve, least, 4,
			[]subsets.State{state(4, 4, trial), state(1, 0, closed), state(3, 3, "")},
			[]int{4, 1, 0},
			0,
		},

		{
			"without Reserve a trial is nothing", staying, open, 4,
			[]subsets.State{state(2, 2, trial), {}, {}},
			[]int{4, 0, 0},
			0,
		},
		{"nothing to divide", inOrder, elastic, 0, nil, []int{0, 0}, 0},
		{"more than all maximums", inOrder, list{bounded("a", "", "2"), bounded("b", "", "3")}, 6, nil, []int{2, 3}, 1},
		{"no subset", inOrder, nil, 3, nil, []int{}, 3},
		{"no subset, nothing to divide", fixed, nil, 0, nil, []int{}, 0},
		{"a maximum of 0", inOrder, list{bounded("a", "", "0"), bounded("b", "", "")}, 3, nil, []int{0, 3}, 0},
		{
			"capacity", inOrder,
			list{bounded("a", "", "5"), bounded("b", "", "")},
			6,
			[]subsets.State{roomFor(3), roomFor(2)},
			[]int{3, 2},
			1,
		},
		{
			"capacity below the minimum", inOrder,
			list{bounded("a", "4", "5"), bounded("b", "", "")},
			6,
			[]subsets.State{roomFor(3), {}},
			[]int{3, 3},
			0,
		},
		{
			"a fixed share beyond the capacity", fixed,
			list{share("a", "4"), share("b", "")},
			6,
			[]subsets.State{roomFor(3), {}},
			[]int{3, 3},
			0,
		},
		{
			"the rest goes around a closed subset", fixed, abc, 6,
			[]subsets.State{state(2, 1, closed), {}, {}},
			[]int{1, 2, 3},
			0,
		},
		{
			"the largest number", inOrder,
			list{bounded("a", "", "100%"), bounded("b", "", "")},
			math.MaxInt32, nil,
			[]int{math.MaxInt32, 0},
			0,
		},

		{"7 to 3 of 10", byWeight, list{weighted("a", 7, "", ""), weighted("b", 3, "", "")}, 10, nil, []int{7, 3}, 0},
		{"7 to 3 of 1", byWeight, list{weighted("a", 7, "", ""), weighted("b", 3, "", "")}, 1, nil, []int{1, 0}, 0},
		{
			"equal weights, the earlier first", byWeight,
			list{weighted("a", 1, "", ""), weighted("b", 1, "", "")},
			3,
			nil,
			[]int{2, 1},
			0,
		},
		{
			"equal weights, no Pod moves", byWeight,
			list{weighted("a", 1, "", ""), weighted("b", 1, "", "")},
			3,
			settled(1, 2),
			[]int{1, 2},
			0,
		},
		{
			"a ratio within bounds", byWeight,
			list{weighted("a", 9, "", "5"), weighted("b", 1, "2", "")},
			10, nil,
			[]int{5, 5},
			0,
		},
		{
			"a minimum above the ratio", byWeight,
			list{weighted("a", 9, "", ""), weighted("b", 1, "4", "")},
			10, nil,
			[]int{6, 4},
			0,
		},
		{
			"a ratio around a closed subset", byWeight,
			list{weighted("a", 2, "", ""), weighted("b", 1, "", ""), weighted("c", 1, "", "")},
			8,
			[]subsets.State{state(4, 2, closed), {}, {}},
			[]int{2, 3, 3},
			0,
		},
		{
			"the heaviest weights of the most Pods", byWeight,
			list{weighted("a", math.MaxInt32, "", ""), weighted("b", math.MaxInt32, "", ""), weighted("c", 1, "", "")},
			math.MaxInt32, nil,
			[]int{1 << 30, 1<<30 - 1, 0},
			0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, err := subsets.New(tc.config, tc.subsets)
			if err != nil {
				t.Fatal(err)
			}
			got, err := rules.Divide(tc.replicas, standing(tc.config, tc.states))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Replicas); diff != "" {
				t.Errorf("replicas (-want +got):\n%s", diff)
			}
			if got.Left != tc.left {
				t.Errorf("%d left, want %d", got.Left, tc.left)
			}
		})
	}
}

// TestStayByWeight: running Pods stay in their subset. Creations of new Pods and deletions of surplus Pods restore
// the ratio of the weights.
func TestStayByWeight(t *testing.T) {
	config := subsets.Config{Fill: subsets.ByWeight, Stay: true}
	rules, err := subsets.New(config, list{weighted("spot", 7, "", ""), weighted("on-demand", 3, "1", "")})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		replicas int
		states   []subsets.State
		want     []int
	}{
		{"spot came back", 10, settled(2, 8), []int{2, 8}},
		{"spot came back and there are more replicas", 14, settled(2, 8), []int{6, 8}},
		{"the ratio is reached", 30, settled(2, 8), []int{21, 9}},
		{"scaled in from the ratio", 6, settled(7, 3), []int{4, 2}},
		{"scaled in to a tie, the earlier keeps the Pod", 5, settled(7, 3), []int{4, 1}},
		{"scaled in from much on demand", 5, settled(2, 8), []int{2, 3}},
		{"scaled in to the minimum", 1, settled(7, 3), []int{0, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := rules.Divide(tc.replicas, tc.states)
			if diff := cmp.Diff(tc.want, got.Replicas); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestHold: a closed subset with Hold keeps its Pods, settled or not, but the settled Pods of all subsets come first.
func TestHold(t *testing.T) {
	rules := func(fill subsets.Fill) *subsets.Rules {
		a, b := bounded("a", "", "9"), bounded("b", "", "")
		if fill == subsets.ByWeight {
			a.Weight, b.Weight = 1, 1
		}
		r, err := subsets.New(subsets.Config{Fill: fill, Stay: true}, []subsets.Subset{a, b})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	closed := func(replicas, settled int, hold bool) subsets.State {
		return subsets.State{Replicas: replicas, Settled: settled, Standing: subsets.Closed, Hold: hold}
	}
	for _, c := range []struct {
		name     string
		fill     subsets.Fill
		replicas int
		a, b     subsets.State
		want     []int
	}{
		{"not held", subsets.InOrder, 10, closed(8, 6, false), subsets.State{Replicas: 2}, []int{6, 4}},
		{"held", subsets.InOrder, 10, closed(8, 6, true), subsets.State{Replicas: 2}, []int{8, 2}},
		{"settled Pods elsewhere come first", subsets.InOrder, 8, closed(8, 6, true), subsets.State{Replicas: 2, Settled: 2}, []int{6, 2}},
		{"up to the maximum", subsets.InOrder, 10, closed(10, 6, true), subsets.State{}, []int{9, 1}},
		{"open", subsets.InOrder, 10, subsets.State{Replicas: 2, Hold: true}, subsets.State{}, []int{9, 1}},
		{"before new Pods of an earlier subset", subsets.InOrder, 6, subsets.State{Replicas: 1}, closed(5, 4, true), []int{1, 5}},
		{"before new Pods by weight", subsets.ByWeight, 6, subsets.State{Replicas: 1}, closed(5, 4, true), []int{1, 5}},
		{"settled Pods elsewhere come first by weight", subsets.ByWeight, 8, closed(8, 6, true), subsets.State{Replicas: 2, Settled: 2}, []int{6, 2}},
		{"not held by weight", subsets.ByWeight, 6, subsets.State{Replicas: 1}, closed(5, 4, false), []int{2, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := rules(c.fill).Divide(c.replicas, []subsets.State{c.a, c.b})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, d.Replicas); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReserved(t *testing.T) {
	for _, tc := range []struct {
		name     string
		config   subsets.Config
		subsets  list
		replicas int
		states   []subsets.State
		want     subsets.Division
	}{
		{
			"UD-32 replicas 4", reserve,
			list{bounded("s0", "", ""), bounded("s1", "", ""), bounded("s2", "", "")},
			4,
			[]subsets.State{state(2, 0, subsets.Closed), state(2, 0, subsets.Closed), state(2, 2, "")},
			subsets.Division{Replicas: []int{2, 2, 4}, Reserved: []int{2, 2, 0}},
		},
		{
			"UD-33 replicas 2", reserve,
			list{bounded("s0", "1", ""), bounded("s1", "1", ""), bounded("s2", "", "")},
			2,
			[]subsets.State{state(1, 0, subsets.Closed), state(1, 0, subsets.Closed), {}},
			subsets.Division{Replicas: []int{1, 1, 2}, Reserved: []int{1, 1, 0}},
		},
		{
			"on trial", reserve,
			list{bounded("s0", "", ""), bounded("s1", "", "")},
			4,
			[]subsets.State{state(1, 1, subsets.OnTrial), state(3, 3, "")},
			subsets.Division{Replicas: []int{4, 3}, Reserved: []int{3, 0}},
		},
		{
			"nothing is reserved", reserve,
			list{bounded("a", "", "3"), bounded("b", "", "")},
			6, settled(3, 3),
			subsets.Division{Replicas: []int{3, 3}, Reserved: []int{0, 0}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, err := subsets.New(tc.config, tc.subsets)
			if err != nil {
				t.Fatal(err)
			}
			got, err := rules.Divide(tc.replicas, standing(tc.config, tc.states))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]int{tc.want.Replicas, tc.want.Reserved, {0}}, [][]int{got.Replicas, got.Reserved, {got.Left}}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	own := inOrder
	own.Paths = subsets.Paths{Total: "spec.replicas", Subsets: "spec.topology.subsets", Max: "most"}
	for _, tc := range []struct {
		name     string
		config   subsets.Config
		subsets  list
		replicas int
		states   []subsets.State
		want     []string
	}{
		{"room for all", inOrder, list{bounded("a", "", "2"), bounded("b", "", "")}, 9, nil, nil},
		{
			"one Pod too many, under the caller's paths", own,
			list{bounded("a", "", "2"), bounded("b", "", "2")},
			5, nil,
			[]string{
				"MaxReached: spec.topology.subsets[a].most: 2; raise the maximum, or add a subset without",
				"MaxReached: spec.topology.subsets[b].most: 2; raise the maximum, or add a subset without",
			},
		},
		{
			"too few for all minimums", own,
			list{bounded("a", "2", ""), bounded("b", "3", "")},
			4, nil,
			[]string{"MinUnmet: spec.topology.subsets[b].minReplicas: 3: 2 Pods for this subset; raise spec.replicas, or make room in the subset"},
		},
		{
			"a closed subset, and room elsewhere", inOrder,
			list{bounded("a", "", ""), bounded("b", "", "")},
			4,
			[]subsets.State{state(3, 1, subsets.Closed), {}},
			[]string{"SubsetClosed: subsets[a]: Closed: 1 of 3 Pods have settled; make room in the subset"},
		},
		{
			"a closed subset that needs no more", inOrder,
			list{bounded("a", "", "2"), bounded("b", "", "")},
			4,
			[]subsets.State{state(2, 2, subsets.Closed), {}},
			nil,
		},
		{
			"full clusters", inOrder,
			list{bounded("a", "", ""), bounded("b", "", "")},
			9,
			[]subsets.State{roomFor(3), roomFor(4)},
			[]string{
				"CapacityReached: subsets[a]: 3: no further Pod fits; make room in the subset",
				"CapacityReached: subsets[b]: 4: no further Pod fits; make room in the subset",
			},
		},
		{"no subset", inOrder, nil, 1, nil, []string{"MaxReached: subsets: there is no subset; add a subset"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, err := subsets.New(tc.config, tc.subsets)
			if err != nil {
				t.Fatal(err)
			}
			division, err := rules.Divide(tc.replicas, standing(tc.config, tc.states))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, limit := range division.Limits {
				got = append(got, limit.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitsAreFew(t *testing.T) {
	var many list
	for i := range 1000 {
		many = append(many, bounded(fmt.Sprint("s", i), "", "1"))
	}
	rules, err := subsets.New(inOrder, many)
	if err != nil {
		t.Fatal(err)
	}
	division, err := rules.Divide(2000, nil)
	if err != nil || division.Left != 1000 || len(division.Limits) != 10 {
		t.Errorf("%d left and %d limits, %v; want 1000 and 10", division.Left, len(division.Limits), err)
	}
}

func TestDivideRefuses(t *testing.T) {
	for _, tc := range []struct {
		name     string
		config   subsets.Config
		subsets  list
		replicas int
		states   []subsets.State
		want     reason.Code
		text     string
	}{
		{
			"UD-18 shares above the replicas", fixed,
			list{share("a", "3"), share("b", "4"), share("c", "4")},
			10, nil,
			subsets.SharesExceed,
			"SharesExceed: subsets: 11: the sum of the shares, of 10 replicas; lower a share, or raise replicas",
		},
		{
			"UD-18 all shares below the replicas", fixed,
			list{share("a", "3"), share("b", "4")},
			10, nil,
			subsets.SharesShort,
			"SharesShort: subsets: 7: the sum of the shares, of 10 replicas; raise a share, or leave a subset without share",
		},
		{
			"UD-18 rounding exceeds", fixed,
			list{share("a", "50%"), share("b", "50%")},
			1, nil,
			subsets.SharesExceed,
			"SharesExceed: subsets: 2: the sum of the shares, of 1 replicas; lower a share, or raise replicas",
		},
		{
			"UD-4 bounds cross after scaling", inOrder,
			list{bounded("a", "50%", "3")},
			10, nil,
			subsets.BoundsCross,
			"BoundsCross: subsets[a].minReplicas: 5: above the maximum of 3; lower the minimum, or raise subsets[a].maxReplicas",
		},
		{
			"negative replicas", inOrder, nil, -1, nil,
			subsets.InvalidState, "InvalidState: replicas: -1: no number of replicas; use 0 to 2147483647",
		},
		{
			"a state too few", inOrder,
			list{bounded("a", "", "")},
			1,
			[]subsets.State{},
			subsets.InvalidState,
			"InvalidState: subsets: 0: states for 1 subsets; give a state for each subset, or none",
		},
		{
			"negative Pods", inOrder,
			list{bounded("a", "", "")},
			1, told(-1),
			subsets.InvalidState,
			"InvalidState: subsets[a]: -1 Pods, 0 settled: no state of a subset; count 0 or more Pods, and use Open, Closed or OnTrial",
		},
		{
			"negative capacity", inOrder,
			list{bounded("a", "", "")},
			1,
			[]subsets.State{roomFor(-1)},
			subsets.InvalidState,
			"InvalidState: subsets[a]: a capacity of -1: no state of a subset; count 0 or more Pods, and use Open, Closed or OnTrial",
		},
		{
			"unknown standing", inOrder,
			list{bounded("a", "", "")},
			1,
			[]subsets.State{state(0, 0, "Shut")},
			subsets.InvalidState,
			`InvalidState: subsets[a]: "Shut": no state of a subset; count 0 or more Pods, and use Open, Closed or OnTrial`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, err := subsets.New(tc.config, tc.subsets)
			if err != nil {
				t.Fatal(err)
			}
			_, err = rules.Divide(tc.replicas, standing(tc.config, tc.states))
			if !errors.Is(err, tc.want) {
				t.Fatalf("%v, want %s", err, tc.want)
			}
			if diff := cmp.Diff(tc.text, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := (&subsets.Rules{}).Divide(1, nil); !errors.Is(err, subsets.InvalidSubsets) {
		t.Errorf("the zero Rules divide: %v", err)
	}
	if _, err := (&subsets.Rules{}).Places(1, nil); !errors.Is(err, subsets.InvalidSubsets) {
		t.Errorf("the zero Rules have places: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		config  subsets.Config
		subsets list
		want    string
	}{
		{
			"no fill",
			subsets.Config{},
			nil,
			`InvalidSubsets: subsets: "": no way to fill subsets; use InOrder, ByWeight or Fixed`,
		},
		{
			"substitutes for Pods that stay",
			subsets.Config{Fill: subsets.InOrder, Stay: true, Reserve: true},
			nil,
			"InvalidSubsets: subsets: substitutes are for subsets filled in order, whose Pods may move; leave out Reserve, or use InOrder without Stay",
		},
		{
			"substitutes by weight",
			subsets.Config{Fill: subsets.ByWeight, Reserve: true},
			nil,
			"InvalidSubsets: subsets: substitutes are for subsets filled in order, whose Pods may move; leave out Reserve, or use InOrder without Stay",
		},
		{
			"substitutes for fixed shares",
			subsets.Config{Fill: subsets.Fixed, Reserve: true},
			nil,
			"InvalidSubsets: subsets: substitutes are for subsets filled in order, whose Pods may move; leave out Reserve, or use InOrder without Stay",
		},
		{
			"no rounding",
			subsets.Config{Fill: subsets.InOrder, Rounding: 9},
			nil,
			`InvalidSubsets: subsets: 9: no rounding; use Down, Up or Nearest of package partition`,
		},
		{
			"no name", inOrder,
			list{bounded("", "", "")},
			`InvalidSubsets: subsets[0].name: "": the subset has no name; name each subset differently`,
		},
		{
			"a name twice", inOrder,
			list{bounded("a", "", ""), bounded("a", "", "")},
			`InvalidSubsets: subsets[a].name: "a": an earlier subset has the name; name each subset differently`,
		},
		{
			"junk", inOrder,
			list{bounded("a", "", "many")},
			`InvalidValue: subsets[a].maxReplicas: "many": no % sign; use an integer from 0 to 2147483647, or a percentage from "0%" to "100%" such as "12.5%"`,
		},
		{
			"more than all", fixed,
			list{share("a", "101%")},
			`InvalidValue: subsets[a].replicas: "101%": above 100 %; use an integer from 0 to 2147483647, or a percentage from "0%" to "100%" such as "12.5%"`,
		},
		{
			"negative", inOrder,
			list{bounded("a", "-1", "")},
			`InvalidValue: subsets[a].minReplicas: -1: negative; use an integer from 0 to 2147483647, or a percentage from "0%" to "100%" such as "12.5%"`,
		},
		{
			"UD-4 crossed numbers", inOrder,
			list{bounded("a", "3", "2")},
			`BoundsCross: subsets[a].minReplicas: 3: above the maximum of 2; lower the minimum, or raise subsets[a].maxReplicas`,
		},
		{
			"UD-4 crossed percentages", inOrder,
			list{bounded("a", "30%", "20%")},
			`BoundsCross: subsets[a].minReplicas: 30%: above the maximum of 20%; lower the minimum, or raise subsets[a].maxReplicas`,
		},
		{
			"a share in order", inOrder,
			list{share("a", "3")},
			`InvalidSubsets: subsets[a].replicas: 3: not used together with InOrder; remove the field`,
		},
		{
			"bounds beside shares", fixed,
			list{bounded("a", "", "3")},
			`InvalidSubsets: subsets[a].maxReplicas: 3: not used together with Fixed; remove the field`,
		},
		{
			"a weight in order", inOrder,
			list{weighted("a", 1, "", "")},
			`InvalidSubsets: subsets[a].weight: 1: not used together with InOrder; remove the field`,
		},
		{
			"no weight", byWeight,
			list{bounded("a", "", "")},
			`InvalidSubsets: subsets[a].weight: 0: no weight; use 1 or more, and a maximum of 0 for a subset without Pods`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, err := subsets.New(tc.config, tc.subsets)
			if err == nil || rules != nil {
				t.Fatal("no error, or rules beside an error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNewKeepsItsOwn: after New, changes of the caller's Config and subsets do not change the Rules.
func TestNewKeepsItsOwn(t *testing.T) {
	most := value("2")
	rules, err := subsets.New(inOrder, list{{Name: "a", Max: most}, {Name: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	*most = intstr.FromInt32(9)
	got, err := rules.Divide(5, nil)
	if diff := cmp.Diff([]int{2, 3}, got.Replicas); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
