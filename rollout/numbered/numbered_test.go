package numbered_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// podsOf parses Pods from a list such as "0-3 old, 4 new down, 7 old specified".
func podsOf(t testing.TB, list string) []numbered.Pod {
	t.Helper()
	var pods []numbered.Pod
	for entry := range strings.SplitSeq(list, ", ") {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		pod := numbered.Pod{Health: rollout.Available}
		for _, word := range words[1:] {
			switch word {
			case "old":
			case "new":
				pod.Updated = true
			case "down":
				pod.Health = rollout.Unavailable
			case "starting":
				pod.Health, pod.Starting = rollout.Unavailable, true
			case "ended":
				pod.Health = rollout.Ended
			case "resting":
				pod.Resting = true
			case "terminating":
				pod.Health = rollout.Terminating
			case "specified":
				pod.Specified = true
			case "notselected":
				pod.Health, pod.NotSelected = rollout.Terminating, true
			case "predeleting":
				pod.PreDeleting = true
			case "hopeless":
				pod.Rest = time.Second
			case "longer":
				pod.Rest = time.Minute
			case "preupdating":
				pod.PreUpdating = true
			default:
				t.Fatalf("%q is not a word for a Pod", word)
			}
		}
		set, err := ordinals.ParseSet("pods", []intstr.IntOrString{intstr.FromString(words[0])})
		if err != nil {
			t.Fatal(err)
		}
		for pod.Ordinal = range set.All() {
			pods = append(pods, pod)
		}
	}
	return pods
}

// told returns the text of a step, such as "create 0 old, 3; delete 7, 6; update 5; cancel 4".
func told(step numbered.Step) string {
	var parts []string
	list := func(verb string, entries []string) {
		if len(entries) > 0 {
			parts = append(parts, verb+" "+strings.Join(entries, ", "))
		}
	}
	var created []string
	for _, c := range step.Create {
		name := strconv.Itoa(c.Ordinal)
		if c.Old {
			name += " old"
		}
		created = append(created, name)
	}
	numbers := func(list []int) (out []string) {
		for _, n := range list {
			out = append(out, strconv.Itoa(n))
		}
		return out
	}
	list("create", created)
	list("delete", numbers(step.Delete))
	list("update", numbers(step.Update))
	list("cancel", numbers(step.Cancel))
	return strings.Join(parts, "; ")
}

func wanted(t testing.TB, start, replicas int, reserved ...string) ordinals.Set {
	t.Helper()
	var list []intstr.IntOrString
	for _, r := range reserved {
		list = append(list, intstr.Parse(r))
	}
	set, err := ordinals.Of(ordinals.Paths{Reserved: "reserved"}, start, replicas, list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

type with func(*numbered.Spec)

type testCase struct {
	name     string
	wanted   ordinals.Set
	with     []with
	pods     string
	want     string
	reversed bool // whether the Pods are given in descending order
}

func ordered(s *numbered.Spec)          { s.Parallel = false }
func unorderedUpdate(s *numbered.Spec)  { s.Unordered = true }
func paused(s *numbered.Spec)           { s.Paused = true }
func onDelete(s *numbered.Spec)         { s.OnDelete = true }
func unlimitedScaleIn(s *numbered.Spec) { s.UnlimitedScaleIn = true }
func unlimitedRepair(s *numbered.Spec)  { s.UnlimitedRepair = true }
func kept(n int) with                   { return func(s *numbered.Spec) { s.Partition = n } }

func down(n int) with { return func(s *numbered.Spec) { s.MaxUnavailable = n } }

func scaleOut(n int) with {
	return func(s *numbered.Spec) { s.ScaleMaxUnavailable = &n }
}

// run runs cases with MaxUnavailable 1 and Parallel unless the case says otherwise.
func run(t *testing.T, cases []testCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := numbered.Spec{Wanted: tc.wanted, MaxUnavailable: 1, Parallel: true}
			for _, with := range tc.with {
				with(&s)
			}
			pods := podsOf(t, tc.pods)
			if tc.reversed {
				slices.Reverse(pods)
			}
			step, err := numbered.Plan(s, pods)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, told(step)); diff != "" {
				t.Errorf("step (-want +got):\n%s\nlimits: %s", diff, step.Limits)
			}
		})
	}
}

func opts(list ...with) []with { return list }

func TestScale(t *testing.T) {
	run(t, []testCase{
		{name: "B-4 S-8 all missing Pods at once", wanted: wanted(t, 0, 4), want: "create 0, 1, 2, 3"},
		{name: "B-5 S-2 reserved ordinals are skipped", wanted: wanted(t, 0, 4, "1"), want: "create 0, 2, 3, 4"},
		{name: "D-7 S-5 a start", wanted: wanted(t, 3, 5), want: "create 3, 4, 5, 6, 7"},
		{name: "S-8 nothing to do", wanted: wanted(t, 0, 4), pods: "0-3 new"},
		{name: "S-4 S-8 all that is not wanted, the highest first", wanted: wanted(t, 0, 2), pods: "0-5 new", want: "delete 5, 4, 3, 2"},
		{name: "S-4 in whatever order they are given", wanted: wanted(t, 0, 2), pods: "4 new, 1 new, 3 new, 0 new, 2 new", want: "delete 4, 3, 2"},
		{name: "replicas 0", wanted: wanted(t, 0, 0), pods: "0-2 old", want: "delete 2, 1, 0"},
		{name: "B-6 S-3 a Pod is moved by a reservation", wanted: wanted(t, 0, 4, "1", "3"), pods: "0 new, 2-4 new", want: "create 5; delete 3"},
		{name: "B-6 S-3 its successor comes up", wanted: wanted(t, 0, 4, "1", "3"), pods: "0 new, 2 new, 4 new, 5 new down"},
		{name: "B-7 S-3 a Pod is only deleted", wanted: wanted(t, 0, 3, "1", "3"), pods: "0 new, 2-4 new", want: "delete 3"},
		{name: "S-3 nothing may be unavailable: the successor comes first", wanted: wanted(t, 0, 4, "3"), with: opts(down(0)), pods: "0-3 new", want: "create 4"},
		{name: "S-3 then the Pod goes", wanted: wanted(t, 0, 4, "3"), with: opts(down(0)), pods: "0-4 new", want: "delete 3"},
		{name: "S-5 the start moves by all Pods: never all at once", wanted: wanted(t, 4, 4), pods: "0-3 new", want: "create 4, 5, 6, 7; delete 3"},
		{name: "S-5 they go as the new ones come", wanted: wanted(t, 4, 4), pods: "0-2 new, 4-6 new, 7 new down", want: "delete 2, 1, 0"},
		{name: "S-5 S-8 or all at once where that is wanted", wanted: wanted(t, 4, 4), with: opts(unlimitedScaleIn), pods: "0-3 new", want: "create 4, 5, 6, 7; delete 3, 2, 1, 0"},
		{name: "S-5 what does not serve needs no budget", wanted: wanted(t, 4, 4), with: opts(down(0)), pods: "0 new, 1 new down, 2 new ended, 3 new, 4-6 new down", want: "create 7; delete 2, 1"},
		{name: "S-8 scale-in past broken Pods keeps what serves", wanted: wanted(t, 0, 3), pods: "0-2 new down, 3-5 new", want: "delete 5"},
		{name: "S-38 a Pod that is stuck stops no other", wanted: wanted(t, 0, 4), with: opts(down(2)), pods: "0 new, 1 new terminating, 2 new, 5 new terminating, 6 new", want: "create 3; delete 6"},
		{name: "S-10 Pods that have ended go, and their successors wait for them", wanted: wanted(t, 0, 4), pods: "0 new, 1 new ended, 2 old ended", want: "create 3; delete 2, 1"},
		{name: "S-10 a hook holds one", wanted: wanted(t, 0, 3), pods: "0 new, 1 new ended predeleting, 2 new", want: "delete 1"},
		{name: "S-9 replicas 5, limit 2", wanted: wanted(t, 0, 5), with: opts(scaleOut(2)), want: "create 0, 1"},
		{name: "S-9 as they become available", wanted: wanted(t, 0, 5), with: opts(scaleOut(2)), pods: "0 new, 1 new down", want: "create 2"},
		{name: "S-9 unavailable Pods above do not count", wanted: wanted(t, 0, 5), with: opts(scaleOut(2)), pods: "1-4 new down", want: "create 0"},
		{name: "S-9 a terminating Pod counts once", wanted: wanted(t, 0, 5), with: opts(scaleOut(2)), pods: "0 new terminating", want: "create 1"},
		{name: "S-10 one that ends again and again is left for a while", wanted: wanted(t, 0, 3), pods: "0 new, 1 new ended resting, 2 new ended", want: "delete 2"},
		{name: "S-10 and counts while it rests", wanted: wanted(t, 0, 4), with: opts(scaleOut(1)), pods: "0 new, 1 new ended resting, 2 new"},
		{name: "S-10 not where it is not wanted", wanted: wanted(t, 0, 1), pods: "0 new, 1 new ended resting", want: "delete 1"},
		{name: "S-10 nor where somebody asks for it", wanted: wanted(t, 0, 2), pods: "0 new, 1 new ended resting specified", want: "delete 1"},
		{name: "S-9 a Pod that has ended counts", wanted: wanted(t, 0, 5), with: opts(scaleOut(2)), pods: "0 new ended", want: "create 1; delete 0"},
		{name: "S-9 beyond the limit it stays", wanted: wanted(t, 0, 5), with: opts(scaleOut(2)), pods: "2 new ended", want: "create 0, 1"},
		{name: "S-9 the limit does not stop scale-in and updates", wanted: wanted(t, 0, 5), with: opts(scaleOut(1), down(2)), pods: "0 old, 1 new down, 2-4 old, 6 new", want: "delete 6; update 4"},
		{name: "S-9 a limit of none", wanted: wanted(t, 0, 3), with: opts(scaleOut(0)), pods: "0 new ended", want: ""},
		{name: "S-13 the partition's ordinals are created old", wanted: wanted(t, 2, 4, "3"), with: opts(kept(2)), want: "create 2 old, 4 old, 5, 6"},
		{name: "S-13 by rank, whatever exists", wanted: wanted(t, 0, 5), with: opts(kept(3)), pods: "0 new, 3-4 new", want: "create 1 old, 2 old"},
		{name: "S-13 partition beyond replicas", wanted: wanted(t, 0, 2), with: opts(kept(9)), want: "create 0 old, 1 old"},
		{name: "S-13 OnDelete: always new", wanted: wanted(t, 0, 2), with: opts(kept(9), onDelete), want: "create 0, 1"},
		{name: "S-13 unordered: others are old enough", wanted: wanted(t, 0, 4), with: opts(kept(2), unorderedUpdate), pods: "2-3 old", want: "create 0, 1"},
		{name: "S-13 unordered: one is lacking", wanted: wanted(t, 0, 4), with: opts(kept(2), unorderedUpdate), pods: "2 old, 3 new", want: "create 0 old, 1"},
		{name: "S-13 unordered: a terminating one is old", wanted: wanted(t, 0, 3), with: opts(kept(1), unorderedUpdate), pods: "1 old terminating, 2 new", want: "create 0"},
		{name: "S-13 unordered: a Pod that is not wanted does not count", wanted: wanted(t, 0, 3), with: opts(kept(1), unorderedUpdate), pods: "1-2 new, 3 old", want: "create 0 old; delete 3"},
		{name: "paused: Pods are created and deleted", wanted: wanted(t, 0, 3), with: opts(paused, down(2)), pods: "0 old ended, 1 old, 3 old", want: "create 2; delete 3, 0"},
	})
}

func TestUpdate(t *testing.T) {
	run(t, []testCase{
		{name: "S-16 the highest first", wanted: wanted(t, 0, 5), pods: "0-4 old", want: "update 4"},
		{name: "S-16 given in another order", wanted: wanted(t, 0, 5), pods: "0-4 old", reversed: true, want: "update 4"},
		{name: "S-15 partition 2 of 0,2,4,5,6", wanted: wanted(t, 0, 5, "1", "3"), with: opts(kept(2), down(9)), pods: "0 old, 2 old, 4-6 old", want: "update 6, 5, 4"},
		{name: "S-15 partition as large as replicas", wanted: wanted(t, 0, 5), with: opts(kept(5), down(9)), pods: "0-4 old"},
		{name: "S-15 a start does not shift it", wanted: wanted(t, 7, 3), with: opts(kept(1), down(9)), pods: "7-9 old", want: "update 9, 8"},
		{name: "S-17 low ordinals use the budget up", wanted: wanted(t, 0, 5), pods: "0 new down, 1-4 old"},
		{name: "S-17 so does a missing one", wanted: wanted(t, 0, 5), pods: "1-4 old", want: "create 0"},
		{name: "S-17 so does a terminating one, which holds its ordinal", wanted: wanted(t, 0, 5), with: opts(down(2)), pods: "0-2 old, 3-4 old terminating"},
		{name: "S-17 and one that is to be deleted or updated and waits", wanted: wanted(t, 0, 5), with: opts(down(2)), pods: "0-2 old, 3 old preupdating, 4 old predeleting", want: "update 4, 3"},
		{name: "S-17 Pods that are not wanted do not", wanted: wanted(t, 0, 3), pods: "0-2 old, 3 old down", want: "delete 3; update 2"},
		{name: "S-18 as many as the budget has room for", wanted: wanted(t, 0, 10), with: opts(down(3)), pods: "0-9 old", want: "update 9, 8, 7"},
		{name: "S-18 updated Pods are passed over", wanted: wanted(t, 0, 5), pods: "0-2 old, 3-4 new", want: "update 2"},
		{name: "S-18 broken old Pods need no room", wanted: wanted(t, 0, 5), pods: "0-3 old, 4 old down", want: "update 4"},
		{name: "S-18 nor where an available one is in front", wanted: wanted(t, 0, 5), pods: "0 old, 1 old down, 2-4 old", want: "update 1"},
		{name: "S-18 both", wanted: wanted(t, 0, 5), with: opts(down(2)), pods: "0 old, 1 old down, 2-4 old", want: "update 4, 1"},
		{name: "S-18 all broken: not more than the budget at a time", wanted: wanted(t, 0, 5), with: opts(down(2)), pods: "0-4 old down", want: "update 4, 3"},
		{name: "S-18 those under way count", wanted: wanted(t, 0, 5), with: opts(down(2)), pods: "0-2 old down, 3 old terminating, 4 new down"},
		{name: "S-18 those that are terminating to be old again do not", wanted: wanted(t, 0, 5), with: opts(kept(1), down(2)), pods: "0 old terminating, 1-3 old down, 4 new down", want: "update 3"},
		{name: "S-18 all broken, all at once where that is wanted", wanted: wanted(t, 0, 5), with: opts(unlimitedRepair), pods: "0-3 old down, 4 new down", want: "update 3, 2, 1, 0"},
		{name: "S-18 the partition keeps broken Pods", wanted: wanted(t, 0, 5), with: opts(kept(2)), pods: "0-1 old down, 2-4 new"},
		{name: "S-18 no budget: only what is broken", wanted: wanted(t, 0, 5), with: opts(down(0)), pods: "0 old down, 1-4 old", want: "update 0"},
		{name: "S-18 maxUnavailable beyond replicas", wanted: wanted(t, 0, 3), with: opts(down(math.MaxInt)), pods: "0-2 old, 3-4 new", want: "delete 4, 3; update 2, 1, 0"},
		{name: "S-20 in place, not complete", wanted: wanted(t, 0, 5), pods: "0-3 old, 4 new down"},
		{name: "S-21 paused", wanted: wanted(t, 0, 3), with: opts(paused), pods: "0 old down, 1-2 old"},
		{name: "S-14 the example", wanted: wanted(t, 0, 5), with: opts(down(3)), pods: "0 new, 1-2 new down specified, 3-4 new specified", want: "delete 4, 2, 1"},
		{name: "S-14 whatever the partition", wanted: wanted(t, 0, 3), with: opts(kept(3)), pods: "0 old, 1 old specified, 2 old", want: "delete 1"},
		{name: "S-14 before updates, from one budget", wanted: wanted(t, 0, 5), with: opts(down(2)), pods: "0 old specified, 1-4 old", want: "delete 0; update 4"},
		{name: "S-14 an old one is not updated as well", wanted: wanted(t, 0, 5), with: opts(down(0)), pods: "0-3 new, 4 old specified"},
		{name: "S-14 paused", wanted: wanted(t, 0, 3), with: opts(paused), pods: "0 new specified down, 1-2 new"},
		{name: "S-14 OnDelete", wanted: wanted(t, 0, 3), with: opts(onDelete), pods: "0 old specified down, 1-2 old down"},
		{name: "S-14 terminating already", wanted: wanted(t, 0, 3), pods: "0 new specified terminating, 1-2 new"},
		{name: "S-29 its claims grow: the walk goes on", wanted: wanted(t, 0, 5), with: opts(down(2)), pods: "0-3 old, 4 old preupdating", want: "update 4, 3"},
		{name: "S-16 unordered: partition 6, 7 and 6 are new", wanted: wanted(t, 0, 10), with: opts(unorderedUpdate, kept(6), down(9)), pods: "6-7 new, 0-5 old, 8-9 old", reversed: true, want: "update 9, 8"},
		{name: "O-1 S-16 unordered: as given", wanted: wanted(t, 0, 5), with: opts(unorderedUpdate, kept(2), down(9)), pods: "1 old, 4 old, 0 old, 3 old, 2 old", want: "update 1, 4, 0"},
		{name: "S-16 unordered: terminating ones are counted first", wanted: wanted(t, 0, 4), with: opts(unorderedUpdate, kept(2), down(9)), pods: "0 old, 1 old terminating, 2-3 old", want: "update 0"},
		{name: "S-16 unordered: those that wait for a hook are counted first", wanted: wanted(t, 0, 4), with: opts(unorderedUpdate, kept(3), down(9)), pods: "0-2 old, 3 old preupdating", want: "update 3"},
		{name: "S-18 unordered: those under way count", wanted: wanted(t, 0, 3), with: opts(unorderedUpdate), pods: "0 old, 1 old down, 2 old terminating"},
		{name: "a starting Pod is not updated before its turn", wanted: wanted(t, 0, 3), pods: "0 old starting, 1-2 old"},
		{name: "a starting Pod is updated when it is its turn", wanted: wanted(t, 0, 3), pods: "0-1 old, 2 old starting", want: "update 2"},
		{name: "a hopeless Pod is passed over for others", wanted: wanted(t, 0, 3), pods: "0-1 old, 2 old hopeless", want: "update 1"},
		{name: "and has its turn in the end", wanted: wanted(t, 0, 3), pods: "0-1 new, 2 old hopeless", want: "update 2"},
		{name: "a hopeless broken Pod does not use up what repairs others", wanted: wanted(t, 0, 3), pods: "0 old, 1 old down, 2 old down hopeless", want: "update 1"},
		{name: "hopeless Pods come last, the highest first", wanted: wanted(t, 0, 4), with: opts(down(9)), pods: "0 old, 1 old hopeless, 2 old, 3 old hopeless", want: "update 2, 0, 3, 1"},
		{name: "the one whose rest ends first is tried first", wanted: wanted(t, 0, 3), pods: "0 old hopeless, 1 old longer, 2 old longer", want: "update 0"},
		{name: "in the order of an unordered update, too", wanted: wanted(t, 0, 3), with: opts(unorderedUpdate), pods: "0 old hopeless, 1 old longer, 2 old longer", want: "update 0"},
		{name: "hopeless, unordered: it is among those that stay", wanted: wanted(t, 0, 3), with: opts(unorderedUpdate, kept(1), down(9)), pods: "0 old hopeless, 1-2 old", want: "update 1, 2"},
		{name: "a hopeless Pod that is not wanted does not keep others", wanted: wanted(t, 9, 3), pods: "0 new, 1 new, 2 new hopeless", want: "create 9, 10, 11; delete 1"},
		{name: "nor one that somebody wants deleted", wanted: wanted(t, 0, 3), pods: "0 new, 1 new specified, 2 new specified hopeless", want: "delete 1"},
		{name: "in order, a hopeless Pod holds up the others", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-1 old, 2 old hopeless", want: "update 2"},
		{name: "S-16 unordered: a specified one is as good as gone", wanted: wanted(t, 0, 3), with: opts(unorderedUpdate, kept(2), down(9)), pods: "0-1 old, 2 old specified", want: "delete 2"},
	})
}

func TestOrdered(t *testing.T) {
	run(t, []testCase{
		{name: "S-7 one at a time", wanted: wanted(t, 0, 3), with: opts(ordered), want: "create 0"},
		{name: "S-7 the next waits until it is available", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 new down"},
		{name: "S-7 the next", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 new", want: "create 1"},
		{name: "S-7 a gap before what is above it", wanted: wanted(t, 0, 4), with: opts(ordered), pods: "0 new, 2 new down, 3 new terminating", want: "create 1"},
		{name: "S-7 a terminating Pod below blocks", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 new terminating, 1 new"},
		{name: "S-7 S-4 scale-in from the highest", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-4 new", want: "delete 4"},
		{name: "S-7 scale-in waits for those that stay", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0 new, 1 new down, 2-4 new"},
		{name: "S-7 an unhealthy Pod that is not wanted may go", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-3 new, 4 new down", want: "delete 4"},
		{name: "S-7 not where one below it is unhealthy that is not wanted, either", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-1 new, 2-4 new down"},
		{name: "S-7 nor where there is a healthy one between", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-1 new, 2 new down, 3 new, 4 new down"},
		{name: "S-7 scale-in to none halts, too", wanted: wanted(t, 0, 0), with: opts(ordered), pods: "0-2 new down"},
		{name: "S-7 also while updates are paused", wanted: wanted(t, 0, 0), with: opts(ordered, paused), pods: "0-2 old down"},
		{name: "S-7 and no update goes ahead of it", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-1 old, 2-3 old down"},
		{name: "S-7 a healthy one above them goes", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-1 new, 2-3 new down, 4 new", want: "delete 4"},
		{name: "S-7 one that waits for an update is unhealthy", wanted: wanted(t, 0, 1), with: opts(ordered), pods: "0 new, 1 old preupdating, 2 new down"},
		{name: "S-10 what has ended is waited for by nobody", wanted: wanted(t, 0, 1), with: opts(ordered), pods: "0 new, 1 new ended, 2 new down", want: "delete 2"},
		{name: "S-10 and goes in its turn", wanted: wanted(t, 0, 1), with: opts(ordered), pods: "0 new, 1 new down, 2 new ended", want: "delete 2"},
		{name: "S-7 a terminating Pod blocks scale-in", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-3 new, 4 new terminating"},
		{name: "S-7 so does one that waits for a hook", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-3 new, 4 new predeleting", want: "delete 4"},
		{name: "S-3 a moved Pod: its successor first", wanted: wanted(t, 0, 4, "1"), with: opts(ordered), pods: "0-3 new", want: "create 4"},
		{name: "S-3 S-5 then the Pod that is not wanted", wanted: wanted(t, 0, 4, "1"), with: opts(ordered), pods: "0-4 new", want: "delete 1"},
		{name: "S-5 the start moves", wanted: wanted(t, 3, 3), with: opts(ordered), pods: "0-2 new", want: "create 3"},
		{name: "S-10 a Pod that has ended goes when its turn comes", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 new, 1 new ended, 2 new ended", want: "delete 1"},
		{name: "S-10 one that rests is waited for", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 new, 1 new ended resting, 2 new ended"},
		{name: "S-10 not before", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 new down, 1 new ended, 2 new"},
		{name: "S-10 a hook holds it", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 new, 1 new ended predeleting, 2 new ended", want: "delete 1"},
		{name: "S-9 a limit of none", wanted: wanted(t, 0, 3), with: opts(ordered, scaleOut(0)), pods: "0 new, 1 new ended"},
		{name: "S-9 any other changes nothing", wanted: wanted(t, 0, 3), with: opts(ordered, scaleOut(1)), pods: "0 new", want: "create 1"},
		{name: "S-13 the partition's ordinals are created old", wanted: wanted(t, 0, 3, "1"), with: opts(ordered, kept(2)), pods: "0 old", want: "create 2 old"},
		{name: "S-13 the others new", wanted: wanted(t, 0, 3, "1"), with: opts(ordered, kept(2)), pods: "0 old, 2 old", want: "create 3"},
		{name: "S-16 the highest is updated first, one at a time", wanted: wanted(t, 0, 5), with: opts(ordered, down(3)), pods: "0-4 old", want: "update 4"},
		{name: "S-16 the next waits", wanted: wanted(t, 0, 5), with: opts(ordered, down(3)), pods: "0-3 old, 4 new down"},
		{name: "S-16 S-20 the next", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0-3 old, 4 new", want: "update 3"},
		{name: "S-15 partition", wanted: wanted(t, 0, 5), with: opts(ordered, kept(3)), pods: "0-2 old, 3-4 new"},
		{name: "S-11 scale-in precedes updates", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-4 old", want: "delete 4"},
		{name: "S-11 also what is terminating", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-2 old, 4 old terminating"},
		{name: "S-18 nothing may be unavailable", wanted: wanted(t, 0, 3), with: opts(ordered, down(0)), pods: "0-2 old"},
		{name: "S-18 a broken old Pod that is not at the front", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0 old, 1 old down, 2-4 old", want: "update 1"},
		{name: "S-18 the lowest of several", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0 old, 1 old down, 2 old, 3-4 old down", want: "update 1"},
		{name: "S-18 the first of all is broken, and no other is there", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0 old down", want: "update 0"},
		{name: "S-18 not while the new revision is untested", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0 old, 1 old down, 2-3 old, 4 new down"},
		{name: "S-18 not while a Pod is terminating", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-1 old down, 2 old, 5 old terminating"},
		{name: "S-18 one that the partition keeps does not stop it", wanted: wanted(t, 0, 5), with: opts(ordered, kept(2)), pods: "0 old, 1 old down, 2 old, 3 old down, 4 old", want: "update 3"},
		{name: "S-18 a Pod above that has ended does not stop it", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0 old, 1 old down, 2-3 old, 4 new ended", want: "update 1"},
		{name: "ordered, a starting Pod is not updated before its turn", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 old starting, 1-2 old"},
		{name: "ordered, a broken one above it is", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 old starting, 1 old down, 2 old", want: "update 1"},
		{name: "ordered, a starting Pod is updated when it is its turn", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-1 old, 2 old starting", want: "update 2"},
		{name: "S-18 paused", wanted: wanted(t, 0, 3), with: opts(ordered, paused), pods: "0 old down, 1-2 old"},
		{name: "S-21 paused: scale-in goes on", wanted: wanted(t, 0, 2), with: opts(ordered, paused), pods: "0-2 old", want: "delete 2"},
		{name: "S-21 paused: no updates", wanted: wanted(t, 0, 2), with: opts(ordered, paused), pods: "0-1 old"},
		{name: "S-14 the highest first, before updates", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0 old, 1-2 old specified, 3-4 old", want: "delete 2"},
		{name: "S-14 a broken one needs no turn", wanted: wanted(t, 0, 5), with: opts(ordered, down(0)), pods: "0 old, 1 new down specified, 2-4 old", want: "delete 1"},
		{name: "S-14 paused", wanted: wanted(t, 0, 2), with: opts(ordered, paused), pods: "0 new specified, 1 new"},
		{name: "S-13 OnDelete", wanted: wanted(t, 0, 3), with: opts(ordered, onDelete), pods: "0-1 old", want: "create 2"},
		{name: "S-14 OnDelete", wanted: wanted(t, 0, 3), with: opts(ordered, onDelete), pods: "0 old down, 1 old specified, 2 old specified down"},
	})
}

func TestHooks(t *testing.T) {
	run(t, []testCase{
		{name: "L-2 recreation waits for its hook and goes on", wanted: wanted(t, 0, 3), pods: "0-1 old, 2 old predeleting", want: "update 2"},
		{name: "L-2 ordered", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-1 old, 2 old predeleting", want: "update 2"},
		{name: "L-2 the partition was raised meanwhile", wanted: wanted(t, 0, 3), with: opts(kept(3)), pods: "0-1 old, 2 old predeleting", want: "cancel 2"},
		{name: "L-6 the update too", wanted: wanted(t, 0, 3), with: opts(kept(3)), pods: "0-1 old, 2 old preupdating", want: "cancel 2"},
		{name: "L-6 rolled back: it is updated already", wanted: wanted(t, 0, 3), pods: "0-1 new, 2 new preupdating", want: "cancel 2"},
		{name: "L-14 scaled in and out again", wanted: wanted(t, 0, 3), pods: "0-1 new, 2 new predeleting", want: "cancel 2"},
		{name: "L-14 ordered", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-1 new, 2 new predeleting", want: "cancel 2"},
		{name: "L-14 it was asked for", wanted: wanted(t, 0, 3), pods: "0-1 new, 2 new specified predeleting", want: "delete 2"},
		{name: "S-14 ordered, it was asked for", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-1 new, 2 new specified predeleting", want: "delete 2"},
		{name: "L-2 scaled in while it waits for its update", wanted: wanted(t, 0, 2), pods: "0-1 old, 2 old preupdating", want: "delete 2; update 1"},
		{name: "L-2 ordered, scaled in while it waits for its update", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-1 old, 2 old preupdating", want: "delete 2"},
		{name: "S-14 it is asked to be deleted while it waits for its update", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0-1 old, 2 old specified preupdating", want: "delete 2"},
		{name: "S-10 it ends while it waits for its update", wanted: wanted(t, 0, 3), pods: "0-1 new, 2 old ended preupdating", want: "delete 2"},
		{name: "S-10 ordered, another comes first", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 old down, 1 old, 2 old ended preupdating", want: "update 0"},
		{name: "S-21 paused: it goes on waiting", wanted: wanted(t, 0, 3), with: opts(paused), pods: "0 old, 1 old preupdating, 2 old predeleting"},
		{name: "S-14 S-21 paused: also one that is asked to be deleted", wanted: wanted(t, 0, 3), with: opts(paused), pods: "0-1 old, 2 old specified preupdating"},
		{name: "S-21 paused: what is not wanted goes", wanted: wanted(t, 0, 2), with: opts(paused), pods: "0 old, 1 old, 2 old predeleting", want: "delete 2"},
		{name: "OnDelete: nothing is to be updated any more", wanted: wanted(t, 0, 3), with: opts(onDelete), pods: "0 old, 1 old preupdating, 2 old predeleting", want: "cancel 1, 2"},
		{name: "unordered: more wait than the partition leaves", wanted: wanted(t, 0, 4), with: opts(unorderedUpdate, kept(3), down(9)), pods: "0-1 old, 2-3 old preupdating", want: "update 2; cancel 3"},
		{name: "terminating: nothing is left to decide", wanted: wanted(t, 0, 3), with: opts(kept(3)), pods: "0-1 old, 2 old predeleting preupdating specified terminating"},
	})
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		wanted ordinals.Set
		with   []with
		pods   string
		want   []reason.Code
		says   string
	}{
		{name: "nothing limits a settled workload", wanted: wanted(t, 0, 5), pods: "0-4 new"},
		{name: "nothing limits the start of a rollout", wanted: wanted(t, 0, 5), pods: "0-4 old"},
		{name: "ordered: nothing limits the start of a rollout", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0-4 old"},
		{name: "more Pods than one step creates are no limit of the user", wanted: wanted(t, 0, 5000)},
		{
			name: "S-9 creation", wanted: wanted(t, 0, 5), with: opts(scaleOut(2)), pods: "0 new, 1 new down, 4 new ended",
			want: []reason.Code{rollout.ScaleUpLimited}, says: "scaleStrategy.maxUnavailable: 1 Pods are created now, 2 that are missing or have ended wait; 2 may be unavailable",
		},
		{name: "S-9 exactly as many as may be", wanted: wanted(t, 0, 2), with: opts(scaleOut(2))},
		{
			name: "S-9 ordered", wanted: wanted(t, 0, 5), with: opts(ordered, scaleOut(0)),
			want: []reason.Code{rollout.ScaleUpLimited, rollout.OrderedWait}, says: "none may be created",
		},
		{
			name: "S-5 Pods that are not wanted", wanted: wanted(t, 4, 4), pods: "0-3 new",
			want: []reason.Code{rollout.DeleteLimited}, says: "maxUnavailable: 3 available Pods that are not wanted stay for now: 4 of 4 wanted ordinals have no available Pod, 1 may",
		},
		{
			name: "S-14 specified Pods", wanted: wanted(t, 0, 5), pods: "0-2 new, 3-4 new specified",
			want: []reason.Code{rollout.DeleteLimited}, says: "maxUnavailable: 1 available Pods are to be deleted; 0 Pods are unavailable, 1 may be",
		},
		{
			name: "S-18 updates", wanted: wanted(t, 0, 5), pods: "0-3 old, 4 new down",
			want: []reason.Code{rollout.UpdateLimited}, says: "maxUnavailable: 4 Pods wait for their update; 1 Pods are unavailable, 1 of them at the new revision; 1 may be",
		},
		{
			name: "S-18 ordered: no budget", wanted: wanted(t, 0, 5), with: opts(ordered, down(0)), pods: "0-4 old",
			want: []reason.Code{rollout.UpdateLimited}, says: "no available Pod may be taken out of service",
		},
		{
			name: "S-17 a name is taken", wanted: wanted(t, 0, 5), pods: "0 new, 1-2 new terminating, 3-4 new, 7 new terminating",
			want: []reason.Code{rollout.OrdinalTerminating}, says: "2 Pods are terminating and will be created again, the first is 1",
		},
		{
			name: "a Pod is not selected", wanted: wanted(t, 0, 3), pods: "0 new, 1 new notselected, 2 new",
			want: []reason.Code{rollout.NotSelected}, says: "ordinals whose Pod the selector does not match: 1, the first is 1; give them the labels",
		},
		{
			name: "a Pod is not selected, ordered", wanted: wanted(t, 0, 3), with: opts(ordered), pods: "0 new notselected, 1-2 new",
			want: []reason.Code{rollout.NotSelected}, says: "ordinals whose Pod the selector does not match: 1, the first is 0",
		},
		{
			name: "S-7 ordered: a Pod is not available", wanted: wanted(t, 0, 5), with: opts(ordered), pods: "0 new, 1-2 new down",
			want: []reason.Code{rollout.OrderedWait}, says: "the Pod of ordinal 1 is not available",
		},
		{
			name: "S-7 ordered: Pods that are to go are not available", wanted: wanted(t, 0, 1), with: opts(ordered), pods: "0 new, 1-3 new down",
			want: []reason.Code{rollout.OrderedWait}, says: "the Pod of ordinal 3 is not available, nor is that of 2; both are to go; wait until it is available, or delete it",
		},
		{
			name: "S-7 ordered: a Pod is terminating", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-1 new, 2 new terminating",
			want: []reason.Code{rollout.OrderedWait}, says: "the Pod of ordinal 2 is terminating",
		},
		{
			name: "L-2 ordered: a hook", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0-1 new, 2 new predeleting",
			want: []reason.Code{rollout.OrderedWait}, says: "the Pod of ordinal 2 waits for a hook",
		},
		{
			name: "S-10 ordered: a hook holds a Pod that has ended", wanted: wanted(t, 0, 2), with: opts(ordered), pods: "0 new, 1 new ended predeleting",
			want: []reason.Code{rollout.OrderedWait}, says: "the Pod of ordinal 1 waits for a hook",
		},
		{
			name: "S-21 paused", wanted: wanted(t, 0, 5), with: opts(paused), pods: "0-3 old, 4 new specified",
			want: []reason.Code{rollout.RolloutPaused}, says: "paused: 4 Pods are to be updated, 1 to be deleted",
		},
		{name: "S-21 paused with nothing to do", wanted: wanted(t, 0, 5), with: opts(paused), pods: "0-4 new"},
		{
			name: "S-15 partition", wanted: wanted(t, 0, 5), with: opts(kept(3)), pods: "0-2 old, 3-4 new",
			want: []reason.Code{rollout.PartitionReached}, says: "partition: 3 Pods are at the old revision, 3 are kept there",
		},
		{name: "S-15 not while Pods are due", wanted: wanted(t, 0, 5), with: opts(kept(3)), pods: "0-3 old, 4 new"},
		{name: "S-15 nothing is old", wanted: wanted(t, 0, 5), with: opts(kept(3)), pods: "0-4 new"},
		{name: "S-15 OnDelete knows no partition", wanted: wanted(t, 0, 5), with: opts(kept(3), onDelete), pods: "0-4 old"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := numbered.Spec{Wanted: tc.wanted, MaxUnavailable: 1, Parallel: true}
			for _, with := range tc.with {
				with(&s)
			}
			step, err := numbered.Plan(s, podsOf(t, tc.pods))
			if err != nil {
				t.Fatal(err)
			}
			var got []reason.Code
			for _, limit := range step.Limits {
				got = append(got, limit.Code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if !strings.Contains(step.Limits.String(), tc.says) {
				t.Errorf("limits say %q, want %q in it", step.Limits, tc.says)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	three := wanted(t, 0, 3)
	for _, tc := range []struct {
		name string
		spec numbered.Spec
		pods []numbered.Pod
		want []string // path and value
	}{
		{"the zero spec", numbered.Spec{}, podsOf(t, "0-2 old"), []string{"wanted "}},
		{"S-6 reserved ordinals that cannot be read", numbered.Spec{Wanted: unread(), Parallel: true, MaxUnavailable: 3}, podsOf(t, "0-2 old"), []string{"wanted "}},
		{"negative numbers", numbered.Spec{Wanted: three, Partition: -1, MaxUnavailable: -2, ScaleMaxUnavailable: new(-3)}, nil, []string{"partition -1", "maxUnavailable -2", "scaleStrategy.maxUnavailable -3"}},
		{"unordered updates one at a time", numbered.Spec{Wanted: three, Unordered: true}, nil, []string{"unordered "}},
		{"a Pod without health", numbered.Spec{Wanted: three}, []numbered.Pod{{Ordinal: 1, Updated: true}}, []string{"pods 1"}},
		{"an unknown health", numbered.Spec{Wanted: three}, []numbered.Pod{{Ordinal: 1, Health: rollout.Terminating + 1}}, []string{"pods 1"}},
		{"a negative ordinal", numbered.Spec{Wanted: three}, []numbered.Pod{{Ordinal: -1, Health: rollout.Available}}, []string{"pods -1"}},
		{"two Pods of one ordinal", numbered.Spec{Wanted: three}, podsOf(t, "2 old, 1 old, 2 new terminating"), []string{"pods 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := numbered.Plan(tc.spec, tc.pods)
			if !errors.Is(err, rollout.InvalidRollout) {
				t.Fatalf("error = %v, want %s", err, rollout.InvalidRollout)
			}
			var got []string
			for _, r := range reason.From(err) {
				got = append(got, r.Path+" "+r.New)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(numbered.Step{}, step); diff != "" {
				t.Errorf("step beside an error (-want +got):\n%s", diff)
			}
		})
	}
}

// unread returns the Set that an operator would use if the operator ignored the error of ordinals.Of.
func unread() ordinals.Set {
	set, _ := ordinals.Of(ordinals.Paths{Reserved: "reserved"}, 0, 3, intstr.FromString("x"))
	return set
}

// TestCreatesInRounds: a step for a far too large number of replicas, such as a mistyped number, needs little time
// and memory.
func TestCreatesInRounds(t *testing.T) {
	s := numbered.Spec{Wanted: wanted(t, 0, math.MaxInt32), Parallel: true}
	step, err := numbered.Plan(s, podsOf(t, "3 new, 2000000000 new"))
	if err != nil {
		t.Fatal(err)
	}
	if len(step.Create) != 1000 || step.Create[3].Ordinal != 4 || step.Create[999].Ordinal != 1000 {
		t.Errorf("%d Pods are created, want 1000: 0-2 and 4-1000", len(step.Create))
	}
}

// tenThousand returns a Spec with 10,000 wanted ordinals and a million reserved ordinals: a range or, if apart is
// true, every second number.
func tenThousand(tb testing.TB, apart bool) numbered.Spec {
	tb.Helper()
	reserved := []intstr.IntOrString{intstr.FromString("5000-1004999")}
	if apart {
		reserved = make([]intstr.IntOrString, 1_000_000)
		for i := range reserved {
			reserved[i] = intstr.FromInt32(int32(2*i + 1))
		}
	}
	set, err := ordinals.Of(ordinals.Paths{Reserved: "reserved"}, 0, 10_000, reserved...)
	if err != nil {
		tb.Fatal(err)
	}
	return numbered.Spec{Wanted: set, Partition: 3000, MaxUnavailable: 200, Parallel: true}
}

func BenchmarkPlan(b *testing.B) {
	for _, bc := range []struct {
		name  string
		apart bool
		edit  func(*numbered.Spec)
		empty bool
	}{
		{"rollout", false, func(*numbered.Spec) {}, false},
		{"rollout/reserved apart", true, func(*numbered.Spec) {}, false},
		{"unordered", false, unorderedUpdate, false},
		{"ordered", true, ordered, false},
		{"creation", true, func(*numbered.Spec) {}, true},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s := tenThousand(b, bc.apart)
			bc.edit(&s)
			var pods []numbered.Pod
			for o := range s.Wanted.All() {
				pods = append(pods, numbered.Pod{Ordinal: o, Updated: o%3 == 0, Health: rollout.Available})
			}
			if bc.empty {
				pods = nil
			}
			// A cache lists Pods in no particular order.
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
			b.ReportAllocs()
			for b.Loop() {
				if step, err := numbered.Plan(s, pods); err != nil || len(step.Update)+len(step.Create) == 0 {
					b.Fatal(step, err)
				}
			}
		})
	}
}

// BenchmarkPlanning measures the planning in a reconcile: parsing a million reserved ordinals, and planning for ten
// thousand Pods.
func BenchmarkPlanning(b *testing.B) {
	ranges, numbers := make([]intstr.IntOrString, 10_000), make([]intstr.IntOrString, 1_000_000)
	for i := range ranges {
		ranges[i] = intstr.FromString(fmt.Sprintf("%d-%d", 101*i+1, 101*i+100))
	}
	for i := range numbers {
		numbers[i] = intstr.FromInt32(int32(2*i + 1))
	}
	for _, bc := range []struct {
		name     string
		reserved []intstr.IntOrString
	}{{"one range", []intstr.IntOrString{intstr.FromString("5000-1004999")}}, {"10,000 ranges", ranges}, {"a million numbers", numbers}} {
		b.Run(bc.name, func(b *testing.B) {
			var pods []numbered.Pod
			var reading, planning time.Duration
			for b.Loop() {
				began := time.Now()
				set, err := ordinals.Of(ordinals.Paths{Reserved: "reserved"}, 0, 10_000, bc.reserved...)
				if err != nil {
					b.Fatal(err)
				}
				if pods == nil {
					for o := range set.All() {
						pods = append(pods, numbered.Pod{Ordinal: o, Updated: o%3 == 0, Health: rollout.Available})
					}
					rand.New(rand.NewPCG(1, 1)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
				}
				read := time.Now()
				step, err := numbered.Plan(numbered.Spec{Wanted: set, Partition: 3000, MaxUnavailable: 200, Parallel: true}, pods)
				if err != nil || len(step.Update) != 200 {
					b.Fatal(step, err)
				}
				reading, planning = reading+read.Sub(began), planning+time.Since(read)
			}
			b.ReportMetric(float64(reading.Nanoseconds())/float64(b.N), "ns/Of")
			b.ReportMetric(float64(planning.Nanoseconds())/float64(b.N), "ns/Plan")
		})
	}
}

// TestOneAtATime: the reason OneAtATime is given if MaxUnavailable would allow more than one unavailable Pod.
func TestOneAtATime(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec numbered.Spec
		path string
	}{
		{"in order", numbered.Spec{MaxUnavailable: 3}, "podManagementPolicy"},
		{"by the path of the API", numbered.Spec{MaxUnavailable: 3, Paths: rollout.Paths{Parallel: "spec.order"}}, "spec.order"},
		{"one Pod is all that may go", numbered.Spec{MaxUnavailable: 1}, ""},
		{"one Pod is left", numbered.Spec{MaxUnavailable: 3, Partition: 3}, ""},
		{"side by side", numbered.Spec{MaxUnavailable: 3, Parallel: true}, ""},
		{"paused", numbered.Spec{MaxUnavailable: 3, Paused: true}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.Wanted = wanted(t, 0, 4)
			step, err := numbered.Plan(tc.spec, podsOf(t, "0-3 old"))
			if err != nil {
				t.Fatal(err)
			}
			path := ""
			for _, limit := range step.Limits {
				if limit.Code == rollout.OneAtATime {
					path = limit.Path
				}
			}
			if path != tc.path {
				t.Errorf("path %q, want %q; limits: %v", path, tc.path, step.Limits)
			}
		})
	}
}

// TestPaths: errors name the fields of the workload's API.
func TestPaths(t *testing.T) {
	paths := rollout.Paths{Partition: "spec.strategy.partition", MaxUnavailable: "spec.strategy.maxUnavailable", ScaleMaxUnavailable: "spec.scaleLimit"}
	_, err := numbered.Plan(numbered.Spec{Partition: -1, MaxUnavailable: -1, ScaleMaxUnavailable: new(-1), Paths: paths}, nil)
	var refused []string
	for _, r := range reason.From(err) {
		refused = append(refused, r.Path)
	}
	if diff := cmp.Diff([]string{"wanted", paths.Partition, paths.MaxUnavailable, paths.ScaleMaxUnavailable}, refused); diff != "" {
		t.Errorf("refused paths (-want +got):\n%s", diff)
	}
}
