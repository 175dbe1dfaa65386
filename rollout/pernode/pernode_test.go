package pernode_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// nodesOf parses Nodes from a list such as "n1..n3, n4 stay, n5 leave, n6 excluded". A Node should have a Pod, except
// after "stay" (an existing Pod may stay) and "leave" (existing Pods must leave).
func nodesOf(t testing.TB, list string) []pernode.Node {
	t.Helper()
	var nodes []pernode.Node
	for entry := range strings.SplitSeq(list, ", ") {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		node := pernode.Node{Run: true, Continue: true}
		for _, word := range words[1:] {
			switch word {
			case "stay":
				node.Run = false
			case "leave":
				node.Run, node.Continue = false, false
			case "excluded":
				node.Excluded = true
			default:
				t.Fatalf("%q is not a word for a Node", word)
			}
		}
		var first, last int
		if _, err := fmt.Sscanf(words[0], "n%d..n%d", &first, &last); err != nil {
			node.Name = words[0]
			nodes = append(nodes, node)
			continue
		}
		for i := first; i <= last; i++ {
			node.Name = fmt.Sprintf("n%d", i)
			nodes = append(nodes, node)
		}
	}
	return nodes
}

var began = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// podsOf parses Pods from a list such as "n1 old, n2..n4 new down, n5/a new, n5/b old". The text before the slash is
// the name of the Node, and the text with the slash is the name of the Pod. Earlier Pods in the list are older.
func podsOf(t testing.TB, list string) []pernode.Pod {
	t.Helper()
	var pods []pernode.Pod
	for entry := range strings.SplitSeq(list, ", ") {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		pod := pernode.Pod{Health: rollout.Available, Ready: true, Scheduled: true, Created: began.Add(time.Duration(len(pods)) * time.Minute)}
		for _, word := range words[1:] {
			switch word {
			case "old":
			case "new":
				pod.Updated = true
			case "down":
				pod.Health, pod.Ready = rollout.Unavailable, false
			case "warm": // ready, but not for long enough
				pod.Health = rollout.Unavailable
			case "ended":
				pod.Health, pod.Ready = rollout.Ended, false
			case "resting":
				pod.Resting = true
			case "terminating":
				pod.Health = rollout.Terminating
			case "notselected":
				pod.Health, pod.NotSelected = rollout.Terminating, true
			case "predeleting":
				pod.PreDeleting = true
			case "hopeless":
				pod.Rest = time.Second
			case "longer":
				pod.Rest = time.Minute
			case "unscheduled":
				pod.Scheduled = false
			case "first": // created at the same time as the first Pod
				pod.Created = began
			default:
				t.Fatalf("%q is not a word for a Pod", word)
			}
		}
		var first, last int
		if _, err := fmt.Sscanf(words[0], "n%d..n%d", &first, &last); err != nil {
			pod.Name = words[0]
			pod.Node, _, _ = strings.Cut(words[0], "/")
			pods = append(pods, pod)
			continue
		}
		for i := first; i <= last; i++ {
			pod.Name, pod.Node = fmt.Sprintf("n%d", i), fmt.Sprintf("n%d", i)
			pods = append(pods, pod)
		}
	}
	return pods
}

// told returns the text of a step, such as "create n1, n3; delete n7/b; update n5", with Pods by name.
func told(step pernode.Step, pods []pernode.Pod) string {
	var parts []string
	say := func(verb string, names []string) {
		if len(names) > 0 {
			parts = append(parts, verb+" "+strings.Join(names, ", "))
		}
	}
	named := func(positions []int) (names []string) {
		for _, i := range positions {
			names = append(names, pods[i].Name)
		}
		return names
	}
	say("create", step.Create)
	say("delete", named(step.Delete))
	say("update", named(step.Update))
	return strings.Join(parts, "; ")
}

type with func(*pernode.Spec)

// held returns the reason that a step has if n Nodes wait for the end of a terminating Pod. Pods have the names of
// their Nodes.
func held(n int, first string) []string {
	return []string{fmt.Sprintf("NodeTerminating: Nodes that get a Pod when the one that they have is gone: %d, the first is %s with Pod %s; wait until it is gone", n, first, first)}
}

func given(list ...with) []with { return list }

func keeps(n int) with            { return func(s *pernode.Spec) { s.Partition = n } }
func mayLack(n int) with          { return func(s *pernode.Spec) { s.MaxUnavailable = n } }
func surges(n int) with           { return func(s *pernode.Spec) { s.MaxSurge = n } }
func paused(s *pernode.Spec)      { s.Paused = true }
func onDelete(s *pernode.Spec)    { s.OnDelete = true }
func progressive(s *pernode.Spec) { s.Progressive = true }
func leavesUnfit(s *pernode.Spec) { s.LeaveUnfit = true }
func apply(list []with) (s pernode.Spec) {
	s.MaxUnavailable = 1
	for _, f := range list {
		f(&s)
	}
	return s
}

type testCase struct {
	name        string
	with        []with // the default of MaxUnavailable is 1
	nodes, pods string
	want        string
	limits      []string
}

// whole is a readable form of a whole step.
type whole struct {
	Does   string
	Limits []string
	Totals pernode.Totals
}

func readWhole(step pernode.Step, pods []pernode.Pod) whole {
	w := whole{Does: told(step, pods), Totals: step.Totals}
	for _, limit := range step.Limits {
		w.Limits = append(w.Limits, limit.String())
	}
	return w
}

// run compares whole steps. A second call, and a call with Nodes and Pods in another order, must give the same step,
// and no argument may be modified. The expected totals come from walker, the reference implementation.
func run(t *testing.T, cases []testCase) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 5))
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s, nodes, pods := apply(tc.with), nodesOf(t, tc.nodes), podsOf(t, tc.pods)
			want := whole{Does: tc.want, Limits: tc.limits, Totals: newWalker(s, nodes, pods).totals()}
			for range 4 {
				nodesBefore, podsBefore := slices.Clone(nodes), slices.Clone(pods)
				step, err := pernode.Plan(s, nodes, pods)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, readWhole(step, pods)); diff != "" {
					t.Errorf("step (-want +got):\n%s\nof %v", diff, pods)
				}
				if diff := cmp.Diff(nodesBefore, nodes) + cmp.Diff(podsBefore, pods); diff != "" {
					t.Errorf("modified:\n%s", diff)
				}
				rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
				rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
			}
		})
	}
}

func TestManage(t *testing.T) {
	run(t, []testCase{
		{name: "nothing at all"},
		{name: "D-3 each Node gets a Pod", nodes: "n1..n3", want: "create n1, n2, n3"},
		{name: "D-3 as Nodes have one, nothing is to do", nodes: "n1..n3", pods: "n1..n2 new, n3 new down"},
		{name: "D-1 not where Pods may only stay, or are to leave", nodes: "n1, n2 stay, n3 leave", want: "create n1"},
		{name: "D-1 Pods that may stay do, others go", nodes: "n1, n2 stay, n3 leave", pods: "n1..n3 new", want: "delete n3"},
		{name: "D-1 all of them go, whatever they are", nodes: "n1 leave", pods: "n1/a new, n1/b old down, n1/c new ended resting, n1/d new predeleting, n1/e new terminating", want: "delete n1/a, n1/b, n1/c, n1/d"},
		{name: "D-1 D-5 with surge as well", with: given(surges(1)), nodes: "n1 leave, n2 stay", pods: "n1/a new, n1/b old, n2 new terminating", want: "delete n1/a, n1/b"},
		{name: "D-8 the partition has no say in what is created", with: given(keeps(9)), nodes: "n1..n3", want: "create n1, n2, n3"},
		{name: "D-12 paused: Pods are created and deleted", with: given(paused), nodes: "n1, n2 leave", pods: "n2 new", want: "create n1; delete n2"},
		{name: "D-12 OnDelete: Pods are created and deleted", with: given(onDelete), nodes: "n1, n2 leave", pods: "n2 new", want: "create n1; delete n2"},
		{name: "D-3 a Pod that is terminating holds its Node", nodes: "n1..n2", pods: "n1 old terminating", want: "create n2", limits: held(1, "n1")},
		{name: "one that is not selected as well", nodes: "n1..n3", pods: "n1 old notselected, n2 new notselected", want: "create n3", limits: []string{
			"NotSelected: Nodes whose Pod the selector does not match: 2, the first is n1 with Pod n1; give them the labels that the selector asks for, or have somebody else control or delete them",
		}},
		{name: "D-3 not with surge", with: given(surges(1)), nodes: "n1..n2", pods: "n1 old terminating", want: "create n1, n2"},
		{name: "D-3 of two the oldest stays", nodes: "n1", pods: "n1/a new, n1/b new", want: "delete n1/b"},
		{name: "D-3 of more as well", nodes: "n1", pods: "n1/a new, n1/b new, n1/c new down", want: "delete n1/b, n1/c"},
		{name: "D-3 whatever it is called", nodes: "n1", pods: "n1/b new, n1/a new", want: "delete n1/a"},
		{name: "D-3 one that is scheduled comes first", nodes: "n1", pods: "n1/a new unscheduled, n1/b new, n1/c new", want: "delete n1/c, n1/a"},
		{name: "D-3 of equally old ones the name says", nodes: "n1", pods: "n1/b new first, n1/a new first", want: "delete n1/b"},
		{name: "D-3 the oldest stays at whatever revision", nodes: "n1", pods: "n1/a old, n1/b new", want: "delete n1/b"},
		{name: "D-3 those that terminate are not counted", nodes: "n1", pods: "n1/a new terminating, n1/b new"},
		{name: "D-3 nor those that have ended, which go", nodes: "n1", pods: "n1/a new ended, n1/b new", want: "delete n1/a"},
		{name: "D-3 D-21 one that is on its way out is not the one that stays", nodes: "n1", pods: "n1/a new predeleting, n1/b new", want: "delete n1/a"},
		{name: "D-3 D-21 unless all are", nodes: "n1", pods: "n1/a new predeleting, n1/b new predeleting", want: "delete n1/a, n1/b"},
		{name: "D-4 a Pod that has ended goes, and holds its Node until then", nodes: "n1", pods: "n1 new ended", want: "delete n1"},
		{name: "D-4 not yet while it rests", nodes: "n1", pods: "n1 new ended resting"},
		{name: "D-4 one that is resting has not ended yet", nodes: "n1", pods: "n1 new resting"},
		{name: "D-4 with surge another is made at once", with: given(surges(1)), nodes: "n1", pods: "n1 new ended", want: "create n1; delete n1"},
		{name: "D-4 not while it rests", with: given(surges(1)), nodes: "n1", pods: "n1 new ended resting"},
		{name: "D-4 one that waits for its hook is deleted again", nodes: "n1", pods: "n1 new predeleting", want: "delete n1"},
		{name: "D-4 also one that has ended", nodes: "n1", pods: "n1 new ended predeleting", want: "delete n1"},
		{name: "D-6 Pods that wait for a Node which is not there", nodes: "n1", pods: "n1 new, gone/b new unscheduled, gone/a old down unscheduled", want: "delete gone/a, gone/b"},
		{name: "D-6 not those that were on it, or go already", pods: "gone/a new, gone/b new ended, gone/c new terminating unscheduled"},
		{name: "D-6 without a Node nothing is known", pods: "/a new unscheduled"},
		{name: "D-5 beside a new Pod that is not available the old one stays", with: given(surges(1)), nodes: "n1", pods: "n1/a old, n1/b new down"},
		{name: "D-5 nor is one that has not been ready for long enough", with: given(surges(1)), nodes: "n1", pods: "n1/a old, n1/b new warm"},
		{name: "D-5 when it is available the old one goes", with: given(surges(1)), nodes: "n1", pods: "n1/a old, n1/b new", want: "delete n1/a"},
		{name: "D-5 or when the old one is not ready", with: given(surges(1)), nodes: "n1", pods: "n1/a old down, n1/b new down", want: "delete n1/a"},
		{name: "D-5 one that is ready for a moment is", with: given(surges(1)), nodes: "n1", pods: "n1/a old warm, n1/b new down"},
		{name: "D-5 extra ones go", with: given(surges(9)), nodes: "n1", pods: "n1/a old, n1/b old, n1/c new down, n1/d new down", want: "delete n1/b, n1/d"},
		{name: "D-5 D-21 the old one waits for its hook", with: given(surges(1)), nodes: "n1", pods: "n1/a old predeleting, n1/b new", want: "delete n1/a"},
		{name: "D-5 D-21 the new one does: it is not available", with: given(surges(1)), nodes: "n1", pods: "n1/a old, n1/b new predeleting", want: "delete n1/b"},
		{name: "D-5 D-21 of two old ones that stays which is not on its way out", with: given(surges(1)), nodes: "n1", pods: "n1/a old predeleting, n1/b old", want: "delete n1/a"},
		{name: "D-5 D-21 of two new ones as well", with: given(surges(1)), nodes: "n1", pods: "n1/a new predeleting, n1/b new", want: "delete n1/a"},
		{name: "D-5 D-21 both are on their way out: no third one", with: given(surges(1)), nodes: "n1", pods: "n1/a old predeleting, n1/b new predeleting", want: "delete n1/a, n1/b"},
		{name: "D-5 D-12 paused: what was begun is ended", with: given(surges(1), paused), nodes: "n1", pods: "n1/a old, n1/b new", want: "delete n1/a", limits: []string{"RolloutPaused: paused: 1 Nodes have a Pod at an older revision; resume it"}},
		{name: "with surge, what is missing comes first", with: given(surges(9)), nodes: "n1..n4", pods: "n2..n4 old", want: "create n1, n4, n3, n2"},
	})
}

func TestProgressive(t *testing.T) {
	reached := func(updated, wanted, now, wait, kept int) []string {
		return []string{fmt.Sprintf("ScaleUpLimited: partition: %d of %d Nodes have a Pod at the new revision, %d get one now; %d without a Pod wait, because %d are kept from it; lower the partition", updated, wanted, now, wait, kept)}
	}
	run(t, []testCase{
		{name: "D-9 10 Nodes, a partition of 7", with: given(progressive, keeps(7)), nodes: "n10..n19", want: "create n10, n11, n12", limits: reached(0, 10, 3, 7, 7)},
		{name: "D-9 nothing more when they are there", with: given(progressive, keeps(7)), nodes: "n10..n19", pods: "n10..n12 new", limits: reached(3, 10, 0, 7, 7)},
		{name: "D-9 a lower partition", with: given(progressive, keeps(5)), nodes: "n10..n19", pods: "n10..n12 new", want: "create n13, n14", limits: reached(3, 10, 2, 5, 5)},
		{name: "D-9 partition 0: everywhere", with: given(progressive), nodes: "n10..n19", pods: "n10..n16 new", want: "create n17, n18, n19"},
		{name: "D-9 a Node that comes later follows", with: given(progressive, keeps(7)), nodes: "n10..n20", pods: "n10..n12 new", want: "create n13", limits: reached(3, 11, 1, 7, 7)},
		{name: "D-9 OnDelete: everywhere", with: given(progressive, keeps(7), onDelete), nodes: "n1..n3", want: "create n1, n2, n3"},
		{name: "D-9 more is kept than there is", with: given(progressive, keeps(7)), nodes: "n1..n3", limits: reached(0, 3, 0, 3, 7)},
		{name: "D-9 enough are to get one", with: given(progressive, keeps(1)), nodes: "n1..n3", pods: "n1 old, n2 new", want: "create n3", limits: []string{"PartitionReached: partition: 1 Nodes keep their revision, because of a partition of 1 of 3 Nodes; lower the partition"}},
		{name: "D-9 unfit Nodes do not count, nor do new Pods that may stay there", with: given(progressive, keeps(2)), nodes: "n1..n4, n5 stay, n6 leave", pods: "n5 new", want: "create n1, n2", limits: reached(0, 4, 2, 2, 2)},
		{name: "D-9 a Node keeps its place while its new Pod terminates", with: given(progressive, keeps(2)), nodes: "n1..n4", pods: "n1 new terminating, n3 new", limits: slices.Concat(held(1, "n1"), reached(2, 4, 0, 2, 2))},
		{name: "D-9 or has ended", with: given(progressive, keeps(2)), nodes: "n1..n4", pods: "n1 new ended, n3 new", want: "delete n1", limits: reached(2, 4, 0, 2, 2)},
		{name: "D-9 with surge it gets one at once, and counts once", with: given(progressive, keeps(2), surges(1)), nodes: "n1..n4", pods: "n1 new terminating, n3 new", want: "create n1", limits: reached(1, 4, 1, 2, 2)},
		{name: "D-9 paused: it goes on", with: given(progressive, keeps(2), paused), nodes: "n1..n3", want: "create n1", limits: reached(0, 3, 1, 2, 2)},
		{
			name: "D-9 D-23 a Node that waits is one of those that are kept, and holds up no other", with: given(progressive, keeps(2)),
			nodes: "n1..n3, n4..n5 stay", pods: "n2 new, n3..n5 old", want: "update n5", limits: reached(1, 3, 0, 1, 2),
		},
	})
}

func TestUpdate(t *testing.T) {
	reached := func(kept, partition, all int) []string {
		return []string{fmt.Sprintf("PartitionReached: partition: %d Nodes keep their revision, because of a partition of %d of %d Nodes; lower the partition", kept, partition, all)}
	}
	waiting := func(wait, lack, may int) []string {
		return []string{fmt.Sprintf("UpdateLimited: maxUnavailable: %d Nodes wait for their update; %d lack an available Pod, %d may; wait for Pods to become available, or raise the limit", wait, lack, may)}
	}
	run(t, []testCase{
		{name: "D-13 descending, a partition of 2", with: given(keeps(2), mayLack(9)), nodes: "n1..n5", pods: "n1..n5 old", want: "update n5, n4, n3"},
		{name: "D-13 names are compared as text", with: given(mayLack(9)), nodes: "n9..n11", pods: "n9..n11 old", want: "update n9, n11, n10"},
		{name: "D-13 a selector on n1 and n2, a partition of 4", with: given(keeps(4), mayLack(9)), nodes: "n1..n2, n3..n5 excluded", pods: "n1..n5 old", want: "update n2"},
		{name: "D-13 a selector on n1 and n2", with: given(mayLack(9)), nodes: "n1..n2, n3..n5 excluded", pods: "n1..n5 old", want: "update n2, n1"},
		{name: "D-13 a partition beyond all Nodes", with: given(keeps(9), mayLack(9)), nodes: "n1..n3", pods: "n1..n3 old", limits: reached(3, 9, 3)},
		{name: "D-13 as many are new as may be", with: given(keeps(2), mayLack(9)), nodes: "n1..n5", pods: "n1..n2 old, n3..n5 new", limits: reached(2, 2, 5)},
		{name: "D-13 those under way come before old ones", with: given(keeps(3), mayLack(9)), nodes: "n1..n5", pods: "n1 old terminating, n2..n5 old", want: "update n5", limits: held(1, "n1")},
		{name: "D-13 so do those without a Pod", with: given(keeps(3), mayLack(9)), nodes: "n1..n5", pods: "n2..n5 old", want: "create n1; update n5"},
		{name: "D-13 D-21 and those that wait for their hook", with: given(keeps(3), mayLack(9)), nodes: "n1..n5", pods: "n1 old predeleting, n2..n5 old", want: "delete n1; update n5"},
		{name: "D-13 two Pods of which one is new are updated", with: given(keeps(2), mayLack(9)), nodes: "n1..n3", pods: "n1/a old, n1/b new, n2..n3 old", want: "delete n1/b", limits: reached(2, 2, 3)},
		{name: "D-13 so are two that are old", with: given(keeps(2), mayLack(9)), nodes: "n1..n3", pods: "n1/a old, n1/b old, n2..n3 old", want: "delete n1/b", limits: reached(2, 2, 3)},
		{name: "D-14 updated Nodes use the partition up, also those that are excluded", with: given(keeps(3), mayLack(9)), nodes: "n1 excluded, n2..n5", pods: "n1 new, n2..n5 old", want: "update n5"},
		{name: "D-14 excluded ones without a Pod as well", with: given(keeps(3), mayLack(9)), nodes: "n1 excluded, n2..n5", pods: "n2..n5 old", want: "create n1; update n5"},
		{name: "D-15 one at a time", nodes: "n1..n5", pods: "n1..n5 old", want: "update n5"},
		{name: "D-15 as many as may lack one", with: given(mayLack(3)), nodes: "n1..n5", pods: "n1..n5 old", want: "update n5, n4, n3"},
		{name: "D-15 one is missing", nodes: "n1..n5", pods: "n2..n5 old", want: "create n1", limits: waiting(4, 1, 1)},
		{name: "D-15 one is terminating", nodes: "n1..n5", pods: "n1..n4 old, n5 old terminating", limits: slices.Concat(held(1, "n5"), waiting(4, 1, 1))},
		{name: "D-15 one has ended", nodes: "n1..n5", pods: "n1..n4 old, n5 new ended", want: "delete n5", limits: waiting(4, 1, 1)},
		{name: "D-15 one is new and not available", nodes: "n1..n5", pods: "n1..n4 old, n5 new down", limits: waiting(4, 1, 1)},
		{name: "D-15 one is new and has not been ready for long enough", nodes: "n1..n5", pods: "n1..n4 old, n5 new warm", limits: waiting(4, 1, 1)},
		{name: "D-15 D-21 one is new and waits for its hook: it counts once", with: given(mayLack(2)), nodes: "n1..n5", pods: "n1..n4 old, n5 new predeleting", want: "delete n5; update n4"},
		{name: "D-15 one has an old and a new Pod", with: given(mayLack(2)), nodes: "n1..n5", pods: "n1..n4 old, n5/a new, n5/b old", want: "delete n5/b; update n4"},
		{name: "D-15 one has two of them", with: given(mayLack(2)), nodes: "n1..n5", pods: "n1..n4 old, n5/a new, n5/b new", want: "delete n5/b; update n4"},
		{name: "D-15 those lack less than may", with: given(mayLack(3)), nodes: "n1..n5", pods: "n1..n4 old, n5 new down", want: "update n4, n3"},
		{name: "D-15 more lack than may", with: given(mayLack(1)), nodes: "n1..n5", pods: "n1..n2 old, n3..n5 new down", limits: waiting(2, 3, 1)},
		{name: "D-15 old Pods that are not available go at once", with: given(mayLack(0)), nodes: "n1..n5", pods: "n1..n2 old down, n3 old warm, n4 new, n5 new down", want: "update n3, n2, n1"},
		{name: "D-15 and leave no room for others", nodes: "n1..n5", pods: "n1 old down, n2..n5 old", want: "update n1", limits: waiting(4, 1, 1)},
		{name: "D-15 they count as all others do", with: given(mayLack(3)), nodes: "n1..n5", pods: "n1..n2 old down, n3..n5 old", want: "update n2, n1, n5"},
		{name: "D-15 no budget at all", with: given(mayLack(0)), nodes: "n1..n3", pods: "n1..n3 old", limits: waiting(3, 0, 0)},
		{name: "D-15 a budget beyond all Nodes", with: given(mayLack(9)), nodes: "n1..n3", pods: "n1..n2 old, n3 new down", want: "update n2, n1"},
		{name: "D-16 Nodes that the partition keeps do not count", with: given(keeps(2)), nodes: "n1..n5", pods: "n1..n2 old down, n3..n5 old", want: "update n5"},
		{name: "D-16 nor do excluded ones", nodes: "n1..n2 excluded, n3..n5", pods: "n1..n2 old down, n3..n5 old", want: "update n5"},
		{name: "D-16 those without a Pod do, the partition left them in", with: given(keeps(4)), nodes: "n1..n5", pods: "n2..n5 old", want: "create n1", limits: reached(4, 4, 5)},
		{name: "D-17 the Node that lacks a Pod is seen before any is chosen", nodes: "n1..n3", pods: "n1 new down, n2..n3 old", limits: waiting(2, 1, 1)},
		{name: "D-17 given in another order", with: given(mayLack(2)), nodes: "n4, n1, n5, n3, n2", pods: "n3 old, n5 old, n1 old, n4 old, n2 old", want: "update n5, n4"},
		{name: "D-21 one that waits for its hook is as good as gone", nodes: "n1..n5", pods: "n1..n4 old, n5 old predeleting", want: "delete n5", limits: waiting(4, 1, 1)},
		{name: "D-21 the next one by one", with: given(mayLack(2)), nodes: "n1..n5", pods: "n1..n4 old, n5 old predeleting", want: "delete n5; update n4"},
		{name: "D-23 Nodes where Pods may only stay are updated", nodes: "n1, n2 stay", pods: "n1..n2 old", want: "update n2"},
		{name: "D-23 and may block it", nodes: "n1, n2 stay", pods: "n1 old, n2 new down", limits: waiting(1, 1, 1)},
		{name: "D-23 not those that a Pod is leaving, while that serves", nodes: "n1, n2 leave", pods: "n1 old, n2 old", want: "delete n2; update n1"},
		{name: "D-23 they come before old ones, as all those under way do", with: given(keeps(1)), nodes: "n1 leave, n2..n3", pods: "n1..n3 old", want: "delete n1; update n3"},
		{name: "D-23 until it is gone", nodes: "n1, n2 leave", pods: "n1 old, n2 old terminating", limits: waiting(1, 1, 1)},
		{name: "D-23 without a Pod they do not count", with: given(keeps(1)), nodes: "n1, n2 stay, n3 leave", pods: "n1 old", limits: reached(1, 1, 1)},
		{name: "D-23 unless they are left out", with: given(leavesUnfit), nodes: "n1, n2..n3 stay, n4 leave", pods: "n1 old, n2 old, n3 old down, n4 old", want: "delete n4; update n1"},
		{name: "they lose it when the update is over", with: given(leavesUnfit), nodes: "n1, n2..n3 stay", pods: "n1 new, n2 old, n3 old down", want: "delete n3, n2"},
		{name: "D-23 also from the partition", with: given(leavesUnfit, keeps(1), mayLack(9)), nodes: "n1..n2, n3..n4 stay", pods: "n1..n4 old", want: "update n2"},
		{name: "P-7 5 Nodes: 2 are kept, 2 may be unavailable", with: given(keeps(2), mayLack(2)), nodes: "n1..n5", pods: "n1..n5 old", want: "update n5, n4"},
		{name: "D-23 but when it is broken", nodes: "n1..n2, n3 leave", pods: "n1..n2 old, n3 new down", want: "delete n3", limits: waiting(2, 1, 1)},
		{name: "hopeless Pods come last", with: given(mayLack(2)), nodes: "n1..n5", pods: "n1..n3 old, n4..n5 old hopeless", want: "update n3, n2"},
		{name: "of broken ones as well", nodes: "n1..n4", pods: "n1..n3 old down, n4 old down hopeless", want: "update n3, n2, n1, n4"},
		{name: "the one whose rest ends first is tried first", nodes: "n1..n2", pods: "n1 old hopeless, n2 old longer", want: "update n1"},
		{name: "but they do come", with: given(mayLack(2)), nodes: "n1..n2", pods: "n1 old hopeless, n2 old", want: "update n2, n1"},
		{
			name: "D-12 paused", with: given(paused, mayLack(9), keeps(1)), nodes: "n1..n5", pods: "n1 old down, n2 old, n3 new, n4 old predeleting, n5/a new, n5/b old", want: "delete n4, n5/b",
			limits: []string{"RolloutPaused: paused: 4 Nodes have a Pod at an older revision; resume it"},
		},
		{name: "D-12 paused with nothing to do", with: given(paused), nodes: "n1..n2", pods: "n1..n2 new"},
		{name: "D-22 OnDelete never updates, and no partition is told of", with: given(onDelete, keeps(1), mayLack(9)), nodes: "n1..n2", pods: "n1 old, n2 old down"},
		{name: "D-13 nothing is said of the partition while others are due", with: given(keeps(1)), nodes: "n1..n3", pods: "n1..n2 old, n3 new down", limits: waiting(1, 1, 1)},
		{name: "D-13 nor where the old Pods that are left go in any case", with: given(keeps(1)), nodes: "n1..n2", pods: "n1 old predeleting, n2 new", want: "delete n1"},
		{name: "nothing limits what is done", with: given(keeps(2)), nodes: "n1..n3", pods: "n1..n3 new"},
	})
}

func TestSurge(t *testing.T) {
	reached := func(kept, partition, all int) []string {
		return []string{fmt.Sprintf("PartitionReached: partition: %d Nodes keep their revision, because of a partition of %d of %d Nodes; lower the partition", kept, partition, all)}
	}
	waiting := func(wait, have, may int) []string {
		return []string{fmt.Sprintf("UpdateLimited: maxSurge: %d Nodes wait for a new Pod; %d have one beside the old, %d may; wait for Pods to become available, or raise the limit", wait, have, may)}
	}
	unfit := func(wait, have, want int) []string {
		return []string{fmt.Sprintf("UnfitLimited: %d Pods at an older revision are on Nodes that are to have none; %d of %d other Nodes have an available Pod; "+
			"wait for the update and for Pods to become available, or delete them", wait, have, want)}
	}
	run(t, []testCase{
		{name: "D-18 a new Pod beside the old one", with: given(surges(1)), nodes: "n1..n3", pods: "n1..n3 old", want: "create n3"},
		{name: "D-18 as many as may", with: given(surges(2)), nodes: "n1..n3", pods: "n1..n3 old", want: "create n3, n2"},
		{name: "D-18 those that have two count", with: given(surges(2)), nodes: "n1..n3", pods: "n1..n2 old, n3/a old, n3/b new down", want: "create n2"},
		{name: "D-18 also when the old one goes now", with: given(surges(1)), nodes: "n1..n3", pods: "n1..n2 old, n3/a old, n3/b new", want: "delete n3/a", limits: waiting(2, 1, 1)},
		{name: "D-18 no more while it goes: the new one serves", with: given(surges(1)), nodes: "n1..n3", pods: "n1..n2 old, n3/a old terminating, n3/b new", want: "create n2"},
		{name: "D-18 the maximum is reached", with: given(surges(1)), nodes: "n1..n3", pods: "n1..n2 old, n3/a old, n3/b new down", limits: waiting(2, 1, 1)},
		{name: "D-18 two old Pods count too", with: given(surges(1)), nodes: "n1..n3", pods: "n1..n2 old, n3/a old, n3/b old", want: "delete n3/b", limits: waiting(2, 1, 1)},
		{name: "D-18 beside an old one that is not available at once", with: given(surges(1)), nodes: "n1..n4", pods: "n1..n2 old down, n3 old, n4 new", want: "create n2, n1, n3"},
		{name: "D-18 D-21 also beside one that waits for its hook", with: given(surges(1)), nodes: "n1..n2", pods: "n1 old predeleting, n2 old", want: "create n1, n2; delete n1"},
		{name: "D-4 D-18 no second one beside a new Pod that has ended and rests", with: given(surges(1)), nodes: "n1..n3", pods: "n1..n2 old, n3/a old, n3/b new ended resting", limits: waiting(2, 1, 1)},
		{name: "D-4 D-18 nor beside an old one that is not available", with: given(surges(2)), nodes: "n1..n2", pods: "n1 old, n2/a old down, n2/b new ended resting", want: "create n1"},
		{name: "D-18 maxUnavailable has no meaning", with: given(surges(1), mayLack(9)), nodes: "n1..n3", pods: "n1..n3 old", want: "create n3"},
		{name: "D-18 new ones that are not available do not count", with: given(surges(1)), nodes: "n1..n3", pods: "n1..n2 old, n3 new down", want: "create n2"},
		{name: "D-13 a partition of 2", with: given(surges(9), keeps(2)), nodes: "n1..n5", pods: "n1..n5 old", want: "create n5, n4, n3"},
		{name: "D-13 broken old ones are kept by it", with: given(surges(9), keeps(2)), nodes: "n1..n3", pods: "n1..n2 old down, n3 new", limits: reached(2, 2, 3)},
		{name: "D-13 excluded Nodes", with: given(surges(9)), nodes: "n1..n2, n3 excluded", pods: "n1..n3 old", want: "create n2, n1"},
		{name: "D-23 where Pods may only stay no second one is created, and a broken one goes", with: given(surges(9)), nodes: "n1, n2 stay", pods: "n1 old, n2 old down", want: "create n1; delete n2"},
		{name: "one that serves goes while more serve than are to", with: given(surges(1)), nodes: "n1..n2, n3 stay", pods: "n1..n3 old", want: "create n2; delete n3"},
		{name: "not before", with: given(surges(9)), nodes: "n1..n2, n3 stay", pods: "n1 new down, n2 new, n3 old", limits: unfit(1, 1, 2)},
		{name: "as many as are too many", with: given(surges(9)), nodes: "n1..n2, n3..n4 stay", pods: "n1 new down, n2 new, n3..n4 old", want: "delete n4"},
		{name: "those that are left anyway do not serve", with: given(surges(9)), nodes: "n1, n2 stay, n3 leave", pods: "n1 new down, n2 old, n3 old", want: "delete n3", limits: unfit(1, 0, 1)},
		{name: "no Node is to have one", with: given(surges(1)), nodes: "n1..n2 stay", pods: "n1..n2 old", want: "delete n2, n1"},
		{name: "one at the new revision stays", with: given(surges(1)), nodes: "n1, n2 stay", pods: "n1..n2 new"},
		{name: "the new one has no place there any more", with: given(surges(1)), nodes: "n1, n2 stay", pods: "n1 new, n2/a old, n2/b new down unscheduled", want: "delete n2/b"},
		{name: "the new one got its place before", with: given(surges(1)), nodes: "n1, n2 stay", pods: "n1 new, n2/a old, n2/b new down"},
		{name: "the partition keeps it", with: given(surges(1), keeps(2)), nodes: "n1, n2 stay", pods: "n1..n2 old", limits: reached(2, 2, 2)},
		{name: "excluded Nodes keep it", with: given(surges(1)), nodes: "n1, n2 stay excluded", pods: "n1 new, n2 old"},
		{name: "nothing goes in a pause", with: given(surges(1), paused), nodes: "n1, n2 stay", pods: "n1 new, n2 old", limits: []string{"RolloutPaused: paused: 1 Nodes have a Pod at an older revision; resume it"}},
		{name: "left out of the update: after the others", with: given(surges(1), leavesUnfit), nodes: "n1, n2..n3 stay", pods: "n1 old, n2 old, n3 old down", want: "create n1"},
		{name: "left out of the update: not while the partition holds that up", with: given(surges(1), leavesUnfit, keeps(1)), nodes: "n1, n2 stay", pods: "n1 old, n2 old", limits: slices.Concat(reached(1, 1, 1), unfit(1, 1, 1))},
		{name: "left out of the update: when that is over", with: given(surges(1), leavesUnfit), nodes: "n1, n2..n3 stay", pods: "n1 new, n2 old, n3 old down", want: "delete n3, n2"},
		{name: "left out of the update: whatever excluded Nodes have", with: given(surges(1), leavesUnfit), nodes: "n1 excluded, n2 stay", pods: "n1 old, n2 old", want: "delete n2"},
		{name: "D-3 beside a Pod that is terminating", with: given(surges(1)), nodes: "n1..n3", pods: "n1 old terminating, n2..n3 old", want: "create n1, n3"},
		{name: "P-7 5 Nodes: 2 are kept, 2 may surge", with: given(keeps(2), surges(2)), nodes: "n1..n5", pods: "n1..n5 old", want: "create n5, n4"},
		{name: "D-12 paused", with: given(surges(2), paused), nodes: "n1..n2", pods: "n1..n2 old", limits: []string{"RolloutPaused: paused: 2 Nodes have a Pod at an older revision; resume it"}},
		{name: "D-22 OnDelete", with: given(surges(2), onDelete), nodes: "n1..n2", pods: "n1..n2 old"},
		{name: "D-5 an update in the middle of another", with: given(surges(1)), nodes: "n1", pods: "n1/a old, n1/b old down", want: "delete n1/b"},
	})
}

// TestReplaces: an ended Pod is replaced by a new Pod, which is created before the ended Pod is deleted.
func TestReplaces(t *testing.T) {
	for _, tc := range []struct {
		name        string
		with        []with
		nodes, pods string
		want        []string
	}{
		{"a Pod that has ended", given(), "n1..n3", "n1 new, n2 new ended, n3 old ended", []string{"n2", "n3"}},
		{"not while it rests", given(), "n1", "n1 new ended resting", nil},
		{"not one that waits for its hook", given(), "n1", "n1 new ended predeleting", nil},
		{"not where another one runs, or terminates", given(), "n1..n2", "n1/a new ended, n1/b new, n2/a new ended, n2/b new terminating", nil},
		{"not where two have ended: the second may have done so at once", given(), "n1", "n1/a new ended, n1/b new ended", nil},
		{"not where no Pod may be created", given(), "n1 stay, n2 leave", "n1 new ended, n2 new ended", nil},
		{"the partition keeps a Node from the new revision", given(progressive, keeps(2)), "n1..n3", "n1 old ended, n2 new ended, n3 new", []string{"n2"}},
		{"in a pause as well", given(paused), "n1", "n1 new ended", []string{"n1"}},
		{"where Pods surge they are created anyway", given(surges(1)), "n1", "n1 new ended", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := pernode.Plan(apply(tc.with), nodesOf(t, tc.nodes), podsOf(t, tc.pods))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, step.Replace); diff != "" {
				t.Errorf("replaced (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTotals(t *testing.T) {
	type totals = pernode.Totals
	for _, tc := range []struct {
		name, nodes, pods string
		want              totals
	}{
		{"D-25 nothing is there", "n1..n3, n4 stay, n5 leave", "", totals{Desired: 3}},
		{"D-25 all is well", "n1..n3", "n1..n3 new", totals{Desired: 3, Current: 3, Ready: 3, Available: 3, Updated: 3}},
		{"D-25 ready, not available", "n1..n3", "n1 old warm, n2 new, n3 old down", totals{Desired: 3, Current: 3, Ready: 2, Available: 1, Updated: 1}},
		{"D-25 the oldest Pod counts", "n1..n2", "n1/a old, n1/b new, n2/a new down, n2/b new", totals{Desired: 2, Current: 2, Ready: 1, Available: 1, Updated: 1}},
		{"D-25 a scheduled one is the oldest", "n1", "n1/a old unscheduled down, n1/b new", totals{Desired: 1, Current: 1, Ready: 1, Available: 1, Updated: 1}},
		{"D-25 one that waits for its hook does not count as available", "n1", "n1 new predeleting", totals{Desired: 1, Current: 1, Ready: 1, Updated: 1}},
		{"D-25 one that runs counts before one that terminates", "n1..n2", "n1/a old terminating, n1/b new, n2/a old ended, n2/b new down", totals{Desired: 2, Current: 2, Ready: 1, Available: 1, Updated: 2}},
		{"D-25 nor does one that is terminating", "n1", "n1 old terminating", totals{Desired: 1, Current: 1, Ready: 1}},
		{"D-25 one that has ended is there", "n1", "n1 new ended", totals{Desired: 1, Current: 1, Updated: 1}},
		{"D-25 misscheduled", "n1, n2 stay, n3..n4 leave", "n1..n3 new", totals{Desired: 1, Current: 1, Ready: 1, Available: 1, Updated: 1, Misscheduled: 2}},
		{"D-25 Pods without their Node count nowhere", "n1", "n1 new, gone/a new, /b new", totals{Desired: 1, Current: 1, Ready: 1, Available: 1, Updated: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := pernode.Plan(pernode.Spec{}, nodesOf(t, tc.nodes), podsOf(t, tc.pods))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, step.Totals); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunImpliesContinue: a Pod is not deleted from a Node with Run, even if Continue is false.
func TestRunImpliesContinue(t *testing.T) {
	step, err := pernode.Plan(pernode.Spec{}, []pernode.Node{{Name: "n1", Run: true}, {Name: "n2", Run: true}}, podsOf(t, "n1 new"))
	if err != nil {
		t.Fatal(err)
	}
	want := pernode.Step{Create: []string{"n2"}, Totals: pernode.Totals{Desired: 2, Current: 1, Ready: 1, Available: 1, Updated: 1}}
	if diff := cmp.Diff(want, step); diff != "" {
		t.Errorf("step (-want +got):\n%s", diff)
	}
}

// TestPaths: the reasons name the fields of the workload's API.
func TestPaths(t *testing.T) {
	paths := rollout.Paths{Partition: "spec.keep", MaxUnavailable: "spec.down", MaxSurge: "spec.up", Paused: "spec.stop"}
	for _, tc := range []struct {
		with  []with
		nodes string
		want  []string
	}{
		{given(mayLack(0)), "n1..n2", []string{"UpdateLimited spec.down"}},
		{given(surges(1)), "n0..n2", []string{"UpdateLimited spec.up"}},
		{given(paused), "n1..n2", []string{"RolloutPaused spec.stop"}},
		{given(keeps(2), mayLack(1)), "n1..n2", []string{"PartitionReached spec.keep"}},
		{given(keeps(3), progressive), "n1..n4", []string{"ScaleUpLimited spec.keep", "PartitionReached spec.keep"}},
	} {
		t.Run(strings.Join(tc.want, ","), func(t *testing.T) {
			s := apply(tc.with)
			s.Paths = paths
			pods := podsOf(t, "n0/a old, n0/b new down, n1..n2 old")
			step, err := pernode.Plan(s, nodesOf(t, tc.nodes), pods)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, limit := range step.Limits {
				got = append(got, string(limit.Code)+" "+limit.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	odd := podsOf(t, "n1 old, n2 old, n3 old")
	odd[1].Health, odd[2].Health = 0, rollout.Terminating+1
	paths := rollout.Paths{Partition: "spec.keep", MaxUnavailable: "spec.down", MaxSurge: "spec.up"}
	for _, tc := range []struct {
		name  string
		spec  pernode.Spec
		nodes string
		pods  []pernode.Pod
		want  []string // path and value
	}{
		{"negative numbers", pernode.Spec{Partition: -1, MaxUnavailable: -2, MaxSurge: -3}, "n1", nil, []string{"partition -1", "maxUnavailable -2", "maxSurge -3"}},
		{"under the names of the workload", pernode.Spec{Partition: -1, MaxUnavailable: -2, MaxSurge: -3, Paths: paths}, "", nil, []string{"spec.keep -1", "spec.down -2", "spec.up -3"}},
		{"one Node twice", pernode.Spec{}, "n3, n2, n1, n2, n1, n3", nil, []string{"nodes n1"}},
		{"Pods without health", pernode.Spec{}, "n1..n3", odd[1:], []string{"pods n2"}},
		{"an unknown health", pernode.Spec{}, "n1..n3", []pernode.Pod{odd[0], odd[2], odd[1]}, []string{"pods n3"}},
		{"also on no Node", pernode.Spec{}, "", odd[1:2], []string{"pods n2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := pernode.Plan(tc.spec, nodesOf(t, tc.nodes), tc.pods)
			if !errors.Is(err, rollout.InvalidRollout) {
				t.Fatalf("error = %v, want %s", err, rollout.InvalidRollout)
			}
			var got []string
			for _, r := range reason.From(err) {
				if r.Remedy == "" {
					t.Errorf("%s has no remedy", r)
				}
				got = append(got, r.Path+" "+r.New)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(pernode.Step{}, step); diff != "" {
				t.Errorf("step beside an error (-want +got):\n%s", diff)
			}
		})
	}
}

func BenchmarkPlan5000(b *testing.B) {
	const n = 5000
	for _, bc := range []struct {
		name string
		edit func(i int, p *pernode.Pod)
		want int
	}{
		{"idle", func(int, *pernode.Pod) {}, 0},
		{"rollout", func(i int, p *pernode.Pod) { p.Updated = i%3 == 0 }, 100},
	} {
		b.Run(bc.name, func(b *testing.B) {
			nodes, pods := make([]pernode.Node, n), make([]pernode.Pod, n)
			for i := range n {
				nodes[i] = pernode.Node{Name: fmt.Sprintf("ip-10-%d-%d.eu-central-1.compute.internal", i/256, i%256), Run: true, Continue: true}
				pods[i] = pernode.Pod{Name: fmt.Sprintf("agent-%d", i), Node: nodes[i].Name, Scheduled: true, Ready: true, Updated: true, Health: rollout.Available}
				bc.edit(i, &pods[i])
			}
			// A cache lists objects in no particular order.
			rng := rand.New(rand.NewPCG(1, 1))
			rng.Shuffle(n, func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
			rng.Shuffle(n, func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
			s := pernode.Spec{Partition: 100, MaxUnavailable: 100}
			b.ReportAllocs()
			for b.Loop() {
				if step, err := pernode.Plan(s, nodes, pods); err != nil || len(step.Create)+len(step.Delete)+len(step.Update) != bc.want {
					b.Fatal(step, err)
				}
			}
		})
	}
}
