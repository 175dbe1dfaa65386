package podorder_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
)

var t0 = metav1.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// edit changes a Pod under construction.
type edit func(*corev1.Pod)

// newPod returns a ready Pod on node n1, created and ready since t0.
func newPod(name string, edits ...edit) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: t0},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: t0}},
		},
	}
	for _, e := range edits {
		e(pod)
	}
	return pod
}

func node(name string) edit            { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
func phase(phase corev1.PodPhase) edit { return func(p *corev1.Pod) { p.Status.Phase = phase } }
func unready() edit {
	return func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
}

func readyAfter(d time.Duration) edit {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = after(d) }
}

func readyAtNoTime() edit {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }
}

func createdAfter(d time.Duration) edit {
	return func(p *corev1.Pod) { p.CreationTimestamp = after(d) }
}
func after(d time.Duration) metav1.Time { return metav1.NewTime(t0.Add(d)) }
func cost(value string) edit            { return annotate(corev1.PodDeletionCost, value) }
func annotate(key, value string) edit {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func label(key, value string) edit {
	return func(p *corev1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[key] = value
	}
}

func restarts(n int32) edit {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: n}} }
}

func names(pods []*corev1.Pod) string {
	list := make([]string, len(pods))
	for i, pod := range pods {
		list[i] = pod.Name
	}
	return strings.Join(list, " ")
}

func Example() {
	pods := []*corev1.Pod{
		newPod("a", label("zone", "west")),
		newPod("b", label("zone", "west"), unready()),
		newPod("c", label("tier", "canary")),
	}
	priority, err := podorder.CompileWeights("spec.priority", []podorder.WeightTerm{{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "canary"}}, Weight: 10,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	podorder.Update{Priority: priority}.Sort(pods, nil)
	for _, pod := range pods {
		fmt.Println(pod.Name)
	}
	// Output:
	// c
	// b
	// a
}

func ExampleDeletion() {
	pods := []*corev1.Pod{newPod("a", node("n1")), newPod("b", node("n1")), newPod("c", node("n2"))}
	podorder.Deletion{}.Sort(pods)
	fmt.Println("delete", pods[0].Name, "first: its node holds two")
	// Output: delete a first: its node holds two
}

// expectOrder shuffles the Pods before each sort, so that no test passes only because the sort is stable.
func expectOrder(t *testing.T, sort func([]*corev1.Pod), want []*corev1.Pod) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		got := slices.Clone(want)
		random.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		sort(got)
		if diff := cmp.Diff(names(want), names(got)); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	}
}

// byDefault sorts by the zero Update.
func byDefault(pods []*corev1.Pod) { podorder.Update{}.Sort(pods, nil) }

func TestUpdate(t *testing.T) {
	for _, tc := range []struct {
		name string
		want []*corev1.Pod
	}{
		{"C-42 unassigned first", []*corev1.Pod{newPod("a", node("")), newPod("b", phase(corev1.PodPending))}},
		{"C-42 phases", []*corev1.Pod{
			newPod("a", phase(corev1.PodPending)), newPod("b", phase(corev1.PodUnknown)), newPod("c", unready()), newPod("d"),
		}},
		{"C-42 ready more recently first", []*corev1.Pod{newPod("a", readyAtNoTime()), newPod("b", readyAfter(time.Hour)), newPod("c")}},
		{"C-42 more restarts first", []*corev1.Pod{newPod("a", restarts(5), createdAfter(-time.Hour)), newPod("b", restarts(1)), newPod("c")}},
		{"C-42 newer first", []*corev1.Pod{
			newPod("a", func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{} }), newPod("b", createdAfter(time.Hour)), newPod("c"),
		}},
		{"C-42 ready counts more than age", []*corev1.Pod{
			newPod("a", unready(), createdAfter(-time.Hour), readyAfter(-time.Hour)), newPod("b", readyAfter(time.Hour), restarts(9)),
		}},
		{"C-42 readiness counts more than restarts", []*corev1.Pod{newPod("a", readyAfter(time.Second)), newPod("b", restarts(9))}},
	} {
		t.Run(tc.name, func(t *testing.T) { expectOrder(t, byDefault, tc.want) })
	}
}

func TestUpdateIsStable(t *testing.T) {
	pods := make([]*corev1.Pod, 100)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("p%02d", i))
	}
	want := names(pods)
	byDefault(pods)
	if diff := cmp.Diff(want, names(pods)); diff != "" {
		t.Errorf("equal Pods were moved (-want +got):\n%s", diff)
	}
}

// TestUpdateSteps: each later step of Update.Sort takes precedence over the earlier steps.
func TestUpdateSteps(t *testing.T) {
	priority, err := podorder.CompileWeights("w", []podorder.WeightTerm{{Selector: selector("tier", "canary"), Weight: 1}})
	if err != nil {
		t.Fatal(err)
	}
	scatter, err := podorder.CompileScatter("s", []podorder.ScatterTerm{{Key: "tier", Value: "canary"}})
	if err != nil {
		t.Fatal(err)
	}
	has := func(key string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool { return p.Labels[key] != "" }
	}
	rest := func(c, e time.Duration) func(*corev1.Pod) time.Duration {
		return func(p *corev1.Pod) time.Duration { return map[string]time.Duration{"c": c, "e": e}[p.Name] }
	}
	for _, tc := range []struct {
		name  string
		order podorder.Update
		want  string
	}{
		{"C-42 nothing is said", podorder.Update{}, "d a b c e f g"},
		{"S-16 as given", podorder.Update{AsGiven: true}, "a b c d e f g"},
		{"O-1 priority", podorder.Update{AsGiven: true, Priority: priority}, "e f g a b c d"},
		{"O-3 priority over what serves", podorder.Update{Priority: priority}, "e f g d a b c"},
		{"O-5 scatter after priority", podorder.Update{AsGiven: true, Priority: priority, Scatter: scatter}, "e a b f c d g"},
		{"C-42 first over both", podorder.Update{AsGiven: true, Priority: priority, Scatter: scatter, First: has("begun")}, "f c e a b d g"},
		{"rest over first", podorder.Update{AsGiven: true, Priority: priority, Scatter: scatter, First: has("begun"), Rest: rest(1, 1)}, "f a b d g c e"},
		{"the shortest rest first", podorder.Update{AsGiven: true, Rest: rest(2, 1)}, "a b d f g e c"},
		{"a rest that is over", podorder.Update{AsGiven: true, Rest: rest(-2, -1)}, "a b c d e f g"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pods := []*corev1.Pod{
				newPod("a"), newPod("b"), newPod("c", label("begun", "1")), newPod("d", unready()),
				newPod("e", label("tier", "canary")), newPod("f", label("tier", "canary"), label("begun", "1")), newPod("g", label("tier", "canary")),
			}
			tc.order.Sort(pods, slices.Clone(pods))
			if diff := cmp.Diff(tc.want, names(pods)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func TestPriority(t *testing.T) {
	weights := func(terms ...podorder.WeightTerm) podorder.Priority {
		p, err := podorder.CompileWeights("spec.w", terms)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	order := func(keys ...string) podorder.Priority {
		var terms []podorder.OrderTerm
		for _, key := range keys {
			terms = append(terms, podorder.OrderTerm{Key: key})
		}
		p, err := podorder.CompileOrder("spec.o", terms)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, tc := range []struct {
		name     string
		priority podorder.Priority
		in       []*corev1.Pod
		want     string
	}{
		{
			"O-1 sums of weights", weights(
				podorder.WeightTerm{Selector: selector("a", "1"), Weight: 60},
				podorder.WeightTerm{Selector: selector("b", "1"), Weight: 30},
				podorder.WeightTerm{Selector: selector("c", "1"), Weight: 40},
			),
			[]*corev1.Pod{
				newPod("none"), newPod("b", label("b", "1")), newPod("a", label("a", "1")),
				newPod("b+c", label("b", "1"), label("c", "1")), newPod("other", label("a", "2")),
			},
			"b+c a b none other",
		},
		{
			"O-1 levels, then trailing numbers descending", order("zone", "set"),
			[]*corev1.Pod{
				newPod("set-2", label("set", "sts-2")), newPod("zone-a", label("zone", "abc")), newPod("set-10", label("set", "sts-10")),
				newPod("zone-7", label("zone", "7"), label("set", "sts-99")), newPod("set-empty", label("set", "")),
			},
			"zone-7 zone-a set-10 set-2 set-empty",
		},
		{
			"O-2 Pods without a key come first", order("zone"),
			[]*corev1.Pod{newPod("keyed", label("zone", "9")), newPod("unkeyed")},
			"unkeyed keyed",
		},
		{
			"O-3 ties keep their order", order("zone"),
			[]*corev1.Pod{newPod("c", label("zone", "x1")), newPod("a", label("zone", "y1")), newPod("b", label("zone", "1"))},
			"c a b",
		},
		{
			"O-1 numbers too large are the largest", order("zone"),
			[]*corev1.Pod{newPod("small", label("zone", "9")), newPod("huge", label("zone", "x99999999999999999999"))},
			"huge small",
		},
		{"no priority", podorder.Priority{}, []*corev1.Pod{newPod("b"), newPod("a")}, "b a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			podorder.Update{AsGiven: true, Priority: tc.priority}.Sort(tc.in, nil)
			if diff := cmp.Diff(tc.want, names(tc.in)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	_, weightErr := podorder.CompileWeights("spec.w", []podorder.WeightTerm{
		{Selector: selector("a", "1"), Weight: 101},
		{Weight: 100},
		{Selector: &metav1.LabelSelector{}, Weight: 0},
		{Selector: selector("a", "not a label value!"), Weight: -1},
	})
	_, orderErr := podorder.CompileOrder("spec.o", []podorder.OrderTerm{{Key: "a"}, {}})
	_, scatterErr := podorder.CompileScatter("spec.s", []podorder.ScatterTerm{{"a", "1"}, {"", "1"}, {"a", "2"}, {"a", "1"}})
	type problem struct{ Path, New string }
	for _, tc := range []struct {
		name string
		err  error
		want []problem
	}{
		{"O-1 weights", weightErr, []problem{
			{"spec.w[0].weight", "101"},
			{"spec.w[1].matchSelector", "{}"},
			{"spec.w[2].matchSelector", "{}"},
			{"spec.w[3].weight", "-1"},
			{"spec.w[3].matchSelector", "&LabelSelector{MatchLabels:map[string]string{a: not a label value!,},MatchExpressions:[]LabelSelectorRequirement{},}"},
		}},
		{"O-1 order", orderErr, []problem{{"spec.o[1].orderedKey", `""`}}},
		{"O-4 scatter", scatterErr, []problem{{"spec.s[1].key", `""`}, {"spec.s[3]", "a=1"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []problem
			for _, r := range reason.From(tc.err) {
				if r.Code != podorder.InvalidTerm || r.Remedy == "" {
					t.Errorf("reason without code or remedy: %v", r)
				}
				got = append(got, problem{r.Path, r.New})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// row returns numbered Pods, a Pod for each letter of kinds: in "m m u", two Pods match the term x=m, and a Pod does
// not.
func row(kinds string) []*corev1.Pod {
	var pods []*corev1.Pod
	counts := map[string]int{}
	for kind := range strings.FieldsSeq(kinds) {
		pods = append(pods, newPod(fmt.Sprintf("%s%d", kind, counts[kind]), label("x", kind)))
		counts[kind]++
	}
	return pods
}

func TestScatter(t *testing.T) {
	m, k := podorder.ScatterTerm{Key: "x", Value: "m"}, podorder.ScatterTerm{Key: "x", Value: "k"}
	for _, tc := range []struct {
		name          string
		terms         []podorder.ScatterTerm
		waiting, rest string
		want          string
	}{
		{"O-4 the example", []podorder.ScatterTerm{m}, "m m m u u u", "", "m0 u0 u1 m1 u2 m2"},
		{"O-4 step 1 one match", []podorder.ScatterTerm{m}, "m u u u", "m m m", "m0 u0 u1 u2"},
		{"O-4 step 1 one other", []podorder.ScatterTerm{m}, "m m m u", "u u u", "m0 m1 m2 u0"},
		{"O-4 step 1 no match", []podorder.ScatterTerm{m}, "u u", "", "u0 u1"},
		{"O-4 two and two", []podorder.ScatterTerm{m}, "u u m m", "", "m0 u0 u1 m1"},
		{"O-4 many others", []podorder.ScatterTerm{m}, "m m m u u u u u u u", "", "m0 u0 u1 u2 u3 m1 u4 u5 u6 m2"},
		{"O-4 many matches", []podorder.ScatterTerm{m}, "m m m m m m u u", "", "m0 m1 m2 u0 m3 m4 u1 m5"},
		// With m=1 and n=4 of the waiting Pods, and tm=2 and tn=5 of all Pods, 5/2 < 4/1: so the sizes are 1 and 3, the
		// count is 1, and an unmatched Pod comes first.
		{"O-4 step 4 surplus of others", []podorder.ScatterTerm{m}, "m m u u u u", "m u", "u0 m0 u1 u2 u3 m1"},
		// With m=2 and n=2 of the waiting Pods, and tm=6 and tn=2 of all Pods, 2/6 < 2/2: so the sizes are 3 and 1, and the
		// count is 0.
		{"O-4 step 4 no whole group", []podorder.ScatterTerm{m}, "m m m u u", "m m m m", "u0 u1 m0 m1 m2"},
		{"O-4 step 4 equal proportion", []podorder.ScatterTerm{m}, "m m m u u u u", "m m u u u u", "m0 u0 u1 m1 u2 u3 m2"},
		{"O-4 terms by number of matches", []podorder.ScatterTerm{k, m}, "m m m k k u u", "", "k0 m0 m1 u0 u1 m2 k1"},
		{"O-4 equal numbers in list order", []podorder.ScatterTerm{k, m}, "m m k k u u", "", "m0 k0 u0 u1 k1 m1"},
		{"O-4 the rest of the workload is missing", []podorder.ScatterTerm{m}, "m m m u u u", "lost", "m0 u0 u1 m1 u2 m2"},
		{"no term", nil, "m u m u", "", "m0 u0 m1 u1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scatter, err := podorder.CompileScatter("spec.s", tc.terms)
			if err != nil {
				t.Fatal(err)
			}
			waiting := row(tc.waiting)
			all := append(row(tc.rest), waiting...)
			if tc.rest == "lost" {
				all = nil
			}
			podorder.Update{AsGiven: true, Scatter: scatter}.Sort(waiting, all)
			if diff := cmp.Diff(tc.want, names(waiting)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzScatter checks that scattering neither loses nor duplicates a Pod, keeps the order among the Pods of a term,
// and puts a matching Pod last.
func FuzzScatter(f *testing.F) {
	f.Add([]byte("mmmuuu"), []byte(""))
	f.Add([]byte("mmuuuukkk"), []byte("mmmmmmu"))
	f.Fuzz(func(t *testing.T, waitingKinds, restKinds []byte) {
		kinds := func(raw []byte) string {
			var b strings.Builder
			for _, c := range raw {
				b.WriteString([]string{"m ", "k ", "u "}[int(c)%3])
			}
			return b.String()
		}
		waiting, rest := row(kinds(waitingKinds)), row(kinds(restKinds))
		before := slices.Clone(waiting)
		scatter, err := podorder.CompileScatter("s", []podorder.ScatterTerm{{"x", "m"}, {"x", "k"}})
		if err != nil {
			t.Fatal(err)
		}
		podorder.Update{AsGiven: true, Scatter: scatter}.Sort(waiting, append(slices.Clone(waiting), rest...))
		for _, kind := range []string{"m", "k", "u"} {
			of := func(pods []*corev1.Pod) []*corev1.Pod {
				return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return p.Labels["x"] != kind })
			}
			want, got := of(before), of(waiting)
			if kind == "u" { // terms may move unmatched Pods, but never reorder them among themselves
				if diff := cmp.Diff(names(want), names(got)); diff != "" {
					t.Fatalf("others (-want +got):\n%s", diff)
				}
			}
			if len(want) != len(got) {
				t.Fatalf("%d Pods of kind %s became %d", len(want), kind, len(got))
			}
		}
		seen := map[string]bool{}
		for _, pod := range waiting {
			if seen[pod.Name] {
				t.Fatalf("Pod %s occurs twice", pod.Name)
			}
			seen[pod.Name] = true
		}
	})
}

func TestDeletion(t *testing.T) {
	available := func(p *corev1.Pod) bool { return p.Labels["unavailable"] == "" }
	for _, tc := range []struct {
		name string
		want []*corev1.Pod
	}{
		{"C-23 (1) unassigned", []*corev1.Pod{newPod("a", node(""), cost("99")), newPod("b", phase(corev1.PodPending))}},
		{"C-23 (2) phases", []*corev1.Pod{newPod("a", phase(corev1.PodPending)), newPod("b", phase(corev1.PodUnknown)), newPod("c", node("n2"), cost("-5"))}},
		{"C-23 (3) not available, then not ready", []*corev1.Pod{
			newPod("a", label("unavailable", "1"), unready(), cost("9")), newPod("b", label("unavailable", "1"), cost("5")),
			newPod("c", unready(), cost("3")), newPod("d", cost("-9"), node("n2")),
		}},
		{"C-23 (4) cost", []*corev1.Pod{
			newPod("a", cost("-2147483648"), node("n5")), newPod("b", cost("-1"), node("n4")), newPod("c", node("n3"), readyAfter(time.Hour)),
			newPod("d", cost("1"), node("n1")), newPod("e", cost("2147483647"), node("n1")),
		}},
		{"C-23 (4) invalid costs are zero", []*corev1.Pod{
			newPod("a", cost("-1"), node("n1")),
			newPod("b", cost("+5"), node("n2"), readyAfter(7*time.Hour)), newPod("c", cost("05"), node("n3"), readyAfter(6*time.Hour)),
			newPod("d", cost("x"), node("n4"), readyAfter(5*time.Hour)), newPod("e", cost(""), node("n5"), readyAfter(4*time.Hour)),
			newPod("f", cost("2147483648"), node("n6"), readyAfter(3*time.Hour)), newPod("g", cost("0"), node("n7"), readyAfter(2*time.Hour)),
			newPod("h", cost("1"), node("n8")),
		}},
		{"C-23 (6) ready for less time, unknown first", []*corev1.Pod{
			newPod("a", node("n1"), readyAtNoTime()), newPod("b", node("n2"), readyAfter(time.Hour)), newPod("c", node("n3")),
		}},
		{"C-23 (7) restarts", []*corev1.Pod{newPod("a", node("n1"), restarts(3)), newPod("b", node("n2"), createdAfter(time.Hour))}},
		{"C-23 (8) newer", []*corev1.Pod{newPod("a", node("n1"), createdAfter(time.Hour)), newPod("b", node("n2"))}},
		{"C-24 stacked on a node, ranks 2 1 0", []*corev1.Pod{
			newPod("a", node("n1"), createdAfter(3*time.Hour)), newPod("b", node("n1"), createdAfter(2*time.Hour)),
			newPod("d", node("n2"), createdAfter(9*time.Hour)), newPod("c", node("n1"), createdAfter(time.Hour)),
		}},
		{"C-24 rank counts more than age", []*corev1.Pod{
			newPod("a", node("n1"), readyAfter(time.Minute)), newPod("c", node("n2"), readyAfter(time.Hour)), newPod("b", node("n1")),
		}},
		{"C-24 rank counts less than cost", []*corev1.Pod{
			newPod("c", node("n2"), cost("-1")), newPod("a", node("n1"), readyAfter(time.Minute)), newPod("b", node("n1")),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { expectOrder(t, podorder.Deletion{Available: available}.Sort, tc.want) })
	}
}

// TestDeletionByStateAlone: with StateAlone, neither deletion costs nor crowded nodes affect the order.
func TestDeletionByStateAlone(t *testing.T) {
	for _, tc := range []struct {
		name string
		want []*corev1.Pod
	}{
		{"WS-40 not the cost", []*corev1.Pod{newPod("a", cost("5"), readyAfter(time.Hour)), newPod("b", cost("-5"))}},
		{"WS-40 not the node", []*corev1.Pod{newPod("c", node("n2"), readyAfter(time.Hour)), newPod("a", node("n1"), readyAfter(time.Minute)), newPod("b", node("n1"))}},
		{"WS-40 the state", []*corev1.Pod{newPod("a", unready(), cost("5")), newPod("b", restarts(3), cost("5")), newPod("c", createdAfter(time.Hour)), newPod("d")}},
	} {
		t.Run(tc.name, func(t *testing.T) { expectOrder(t, podorder.Deletion{StateAlone: true}.Sort, tc.want) })
	}
}

func TestDeletionSpreads(t *testing.T) {
	nodes := map[string]map[string]string{
		"a1": {"zone": "a", corev1.LabelHostname: "a1"}, "a2": {"zone": "a", corev1.LabelHostname: "a2"},
		"b1": {"zone": "b", corev1.LabelHostname: "b1"}, "bare": {},
	}
	asked := map[string]int{}
	facts := func(name string) (map[string]string, bool) {
		asked[name]++
		labels, ok := nodes[name]
		return labels, ok
	}
	zone := []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}
	both := append(slices.Clone(zone), corev1.TopologySpreadConstraint{TopologyKey: corev1.LabelHostname})
	since := func(n int) edit { return readyAfter(time.Duration(n) * time.Minute) }
	for _, tc := range []struct {
		name string
		d    podorder.Deletion
		want []*corev1.Pod
	}{
		// The ranks are 4, 3, 2, 1 in zone a and 2, 1 in zone b, each times ln 4.
		{"C-25 the crowded domain first", podorder.Deletion{Constraints: zone, NodeLabels: facts}, []*corev1.Pod{
			newPod("p4", node("a1"), since(6)), newPod("p3", node("a2"), since(5)),
			newPod("q2", node("b1"), since(9)), newPod("p2", node("a1"), since(4)),
			newPod("q1", node("b1"), since(8)), newPod("p1", node("a2"), since(3)),
		}},
		// In zone a, a Pod on the node with two Pods comes first, because within a zone the rank by node decides.
		{"C-25 node rank within the domain", podorder.Deletion{Constraints: zone, NodeLabels: facts}, []*corev1.Pod{
			newPod("p3", node("a1"), since(2)), newPod("p2", node("a2"), since(9)), newPod("p1", node("a1"), since(1)),
		}},
		// The ranks by zone are 3, 2, 1, times ln 3. The ranks by host are 2, 1 on a1 and 1 on a2, times ln 4.
		{"C-25 ranks add up", podorder.Deletion{Constraints: both, NodeLabels: facts}, []*corev1.Pod{
			newPod("p3", node("a1"), since(2)), newPod("p2", node("a2"), since(9)), newPod("p1", node("a1"), since(1)),
		}},
		{"C-25 unknown nodes and missing keys count nothing", podorder.Deletion{Constraints: zone, NodeLabels: facts}, []*corev1.Pod{
			newPod("p1", node("b1"), since(1)), newPod("x", node("gone"), since(9)), newPod("y", node("bare"), since(8)),
		}},
		{"C-25 no node facts at all", podorder.Deletion{Constraints: zone}, []*corev1.Pod{
			newPod("a", node("a1"), since(2)), newPod("b", node("a1"), since(1)),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { expectOrder(t, tc.d.Sort, tc.want) })
	}
	clear(asked)
	podorder.Deletion{Constraints: both, NodeLabels: facts}.Sort(
		[]*corev1.Pod{newPod("a", node("a1")), newPod("b", node("a1")), newPod("c", node(""))})
	if diff := cmp.Diff(map[string]int{"a1": 1}, asked); diff != "" {
		t.Errorf("questions about nodes (-want +got):\n%s", diff)
	}
}

// FuzzDeletionLevels deletes the Pods of a workload one by one, and checks that the numbers of Pods in the domains
// stay balanced.
func FuzzDeletionLevels(f *testing.F) {
	f.Add(uint8(4), uint8(2))
	f.Add(uint8(9), uint8(9))
	f.Fuzz(func(t *testing.T, inA, inB uint8) {
		count := map[string]int{"a": int(inA % 16), "b": int(inB % 16)}
		var pods []*corev1.Pod
		for zone, n := range count {
			for i := range n {
				pods = append(pods, newPod(fmt.Sprintf("%s%d", zone, i), node(fmt.Sprintf("%s-%d", zone, i))))
			}
		}
		d := podorder.Deletion{
			Constraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}},
			NodeLabels:  func(name string) (map[string]string, bool) { return map[string]string{"zone": name[:1]}, true },
		}
		skew := func() int { return max(count["a"]-count["b"], count["b"]-count["a"]) }
		for len(pods) > 0 {
			before := skew()
			d.Sort(pods)
			count[pods[0].Name[:1]]--
			pods = pods[1:]
			if skew() > max(before, 1) {
				t.Fatalf("skew grew from %d to %v", before, count)
			}
		}
	})
}

func benchmarkPods(n int) []*corev1.Pod {
	random := rand.New(rand.NewPCG(7, 7))
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("p%d", i), node(fmt.Sprintf("n%d", random.IntN(500))), restarts(random.Int32N(3)),
			readyAfter(time.Duration(random.IntN(1000))*time.Second), label("zone", fmt.Sprintf("z-%d", random.IntN(20))))
	}
	return pods
}

func benchmarkOrder(b *testing.B, sort func([]*corev1.Pod)) {
	pods := benchmarkPods(10_000)
	work := make([]*corev1.Pod, len(pods))
	b.ReportAllocs()
	for b.Loop() {
		copy(work, pods)
		sort(work)
	}
}

func BenchmarkUpdate10k(b *testing.B) { benchmarkOrder(b, byDefault) }

func BenchmarkPriority10k(b *testing.B) {
	p, err := podorder.CompileOrder("o", []podorder.OrderTerm{{Key: "zone"}})
	if err != nil {
		b.Fatal(err)
	}
	benchmarkOrder(b, func(pods []*corev1.Pod) { podorder.Update{AsGiven: true, Priority: p}.Sort(pods, nil) })
}

func BenchmarkWeights10k(b *testing.B) {
	p, err := podorder.CompileWeights("o", []podorder.WeightTerm{{Selector: selector("zone", "z-1"), Weight: 5}})
	if err != nil {
		b.Fatal(err)
	}
	benchmarkOrder(b, func(pods []*corev1.Pod) { podorder.Update{AsGiven: true, Priority: p}.Sort(pods, nil) })
}

func BenchmarkScatter10k(b *testing.B) {
	s, err := podorder.CompileScatter("s", []podorder.ScatterTerm{{"zone", "z-1"}, {"zone", "z-2"}})
	if err != nil {
		b.Fatal(err)
	}
	all := benchmarkPods(10_000)
	benchmarkOrder(b, func(pods []*corev1.Pod) { podorder.Update{AsGiven: true, Scatter: s}.Sort(pods, all) })
}

func BenchmarkDeletion10k(b *testing.B) { benchmarkOrder(b, podorder.Deletion{}.Sort) }

func BenchmarkDeletionSpread10k(b *testing.B) {
	d := podorder.Deletion{
		Constraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}},
		NodeLabels:  func(name string) (map[string]string, bool) { return map[string]string{"zone": name[:2]}, true },
	}
	benchmarkOrder(b, d.Sort)
}
