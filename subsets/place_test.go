package subsets_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/subsets"
)

func list1(code reason.Code, subset, found, detail, remedy string) reason.List {
	return reason.List{{Code: code, Path: "subsets[" + subset + "]", New: found, Detail: detail, Remedy: remedy}}
}

func full(subset, most string) reason.List {
	return list1(subsets.MaxReached, subset, most, "the subset has as many Pods as allowed", "raise the maximum")
}

func kept(subset, most string, pods, places int) reason.List {
	return list1(subsets.PlacesKept, subset, most, fmt.Sprintf("Pods: %d, places kept for requests of the last 30s: %d", pods, places),
		"see the events of the Pods' owner: the place of a failed request becomes free again")
}

func closed(subset string) reason.List {
	return list1(subsets.SubsetClosed, subset, "", "Pods could not be scheduled there", "make room in the subset")
}

func lost(code reason.Code, pod, detail, remedy string) reason.List {
	return reason.List{{Code: code, Object: reason.Object{Kind: "Pod", Name: pod}, Path: "subsets[a]", Detail: detail, Remedy: remedy}}
}

func TestPlaces(t *testing.T) {
	rules, err := subsets.New(
		subsets.Config{Fill: subsets.InOrder, Rounding: partition.Up, Paths: subsets.Paths{Subsets: "spec.subsets"}},
		list{bounded("a", "", "30%"), bounded("b", "", "2"), bounded("c", "", "")},
	)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rules.Places(11, func(subset string) bool { return subset == "b" })
	if err != nil {
		t.Fatal(err)
	}
	t.Run("WS-16 percentages are rounded up", func(t *testing.T) {
		want := []subsets.Place{
			{Name: "a", Max: 4, Path: "spec.subsets[a]"},
			{Name: "b", Max: 2, Closed: true, Path: "spec.subsets[b]"},
			{Name: "c", Max: subsets.Unlimited, Path: "spec.subsets[c]"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestPick(t *testing.T) {
	have := map[string]int{"a": 2, "b": 0, "c": 5}
	for _, tc := range []struct {
		name   string
		places places
		want   subsets.Choice
	}{
		{"the first with room", places{limited("a", 3), limited("b", 1)}, subsets.Choice{Subset: "a"}},
		{
			"the first is full",
			places{limited("a", 2), limited("b", 1)},
			subsets.Choice{Subset: "b", Why: full("a", "2")},
		},
		{
			"the first is closed",
			places{shut(limited("a", 3)), limited("b", 1)},
			subsets.Choice{Subset: "b", Why: closed("a")},
		},
		{"no room", places{limited("c", 5)}, subsets.Choice{Why: full("c", "5")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := subsets.Pick(tc.places, func(subset string) int { return have[subset] })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPickNumbered(t *testing.T) {
	abc := places{limited("a", 5), limited("b", 5), unlimited("c")}
	for _, tc := range []struct {
		name   string
		places places
		want   string // the subsets of the Pods with index 0, 1, ...; "-" for none
	}{
		{"WS-23 5, 5 and the rest", abc, "aaaaabbbbbcccc"},
		{"WS-23 all limited", places{limited("a", 2), limited("b", 1)}, "aab--"},
		{"WS-23 an unschedulable subset", places{limited("a", 2), shut(limited("b", 3)), limited("c", 2)}, "aacc-"},
		{"WS-23 an unschedulable first subset", places{shut(limited("a", 2)), unlimited("b")}, "bbb"},
		{"no room for anybody", places{{Name: "a"}, limited("b", 1)}, "b-"},
		{
			"the largest numbers",
			places{limited("a", 1), limited("b", math.MaxInt32), limited("c", math.MaxInt32)},
			"abb",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got strings.Builder
			for i := range tc.want {
				choice := subsets.PickNumbered(tc.places, i)
				if choice.Subset == "" {
					choice.Subset = "-"
				}
				got.WriteString(choice.Subset)
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("WS-62 a start and reserved numbers are no gaps", func(t *testing.T) {
		numbers, err := ordinals.Of(ordinals.Paths{}, 3, 4, intstr.FromInt32(4))
		if err != nil {
			t.Fatal(err)
		}
		got := map[int]string{}
		for ordinal := range numbers.All() {
			index, _ := numbers.Index(ordinal)
			got[ordinal] = subsets.PickNumbered(places{limited("a", 2), unlimited("b")}, index).Subset
		}
		if diff := cmp.Diff(map[int]string{3: "a", 5: "a", 6: "b", 7: "b"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	if got := subsets.PickNumbered(abc, -1); got.Subset != "" {
		t.Errorf("a Pod without a number goes to %s", got.Subset)
	}
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

func labelled(subset string) *corev1.Pod {
	pod := podNamed("p")
	pod.Labels["subset"] = subset
	return pod
}

func subsetLabel(pod *corev1.Pod) string { return pod.Labels["subset"] }

func TestMatcher(t *testing.T) {
	fits := func(all map[string]subsets.Fit) func(*corev1.Pod, string) subsets.Fit {
		return func(_ *corev1.Pod, subset string) subsets.Fit { return all[subset] }
	}
	runs := subsets.Fit{Runs: true}
	preferred := func(n int) subsets.Fit { return subsets.Fit{Runs: true, Preferred: n} }
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		fits map[string]subsets.Fit
		want string
		code reason.Code
	}{
		{"WS-30 named", labelled("b"), nil, "b", ""},
		{"WS-30 named, though another fits", labelled("b"), map[string]subsets.Fit{"a": preferred(5)}, "b", ""},
		{
			"WS-30 the named subset is gone", labelled("z"),
			map[string]subsets.Fit{"a": preferred(5)},
			"",
			subsets.UnknownSubset,
		},
		{"WS-31 the only fit", podNamed("p"), map[string]subsets.Fit{"c": runs}, "c", ""},
		{"WS-31 nothing fits", podNamed("p"), nil, "", subsets.NoSubsetFits},
		{"WS-31 ties go to the first", podNamed("p"), map[string]subsets.Fit{"b": runs, "c": runs}, "b", ""},
		{
			"WS-31 preferences first", podNamed("p"),
			map[string]subsets.Fit{"a": {Runs: true, Same: true, Room: true}, "b": preferred(1)},
			"b", "",
		},
		{
			"WS-31 then the patch", podNamed("p"),
			map[string]subsets.Fit{"a": {Runs: true, Room: true}, "b": {Runs: true, Same: true}},
			"b", "",
		},
		{"WS-31 then room", podNamed("p"), map[string]subsets.Fit{"a": runs, "b": {Runs: true, Room: true}}, "b", ""},
		{
			"WS-31 a preference does not replace a fit", podNamed("p"),
			map[string]subsets.Fit{"a": {Preferred: 100, Same: true, Room: true}, "b": runs},
			"b", "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			matcher, err := subsets.NewMatcher([]string{"a", "b", "c"}, subsetLabel, fits(tc.fits))
			if err != nil {
				t.Fatal(err)
			}
			got, why := matcher.Of(tc.pod)
			if got != tc.want || why.Code != tc.code {
				t.Errorf("%q, %q; want %q, %q", got, why.Code, tc.want, tc.code)
			}
		})
	}
}

// TestMatcherWithNodefit: the subsets are node pools, and a Pod that names no subset belongs to the pool of its Node.
func TestMatcherWithNodefit(t *testing.T) {
	t.Run("WS-31 unscheduled, or the Node is gone", func(t *testing.T) {
		nodes := map[string]*corev1.Node{"n1": {ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"pool": "spot"}}}}
		fit := func(pod *corev1.Pod, subset string) subsets.Fit {
			spec := pod.Spec.DeepCopy()
			spec.NodeSelector, spec.NodeName = map[string]string{"pool": subset}, ""
			requirements, err := nodefit.New(spec)
			node := nodes[pod.Spec.NodeName]
			return subsets.Fit{Runs: err == nil && node != nil && requirements.Fits(node).Run}
		}
		matcher, err := subsets.NewMatcher([]string{"on-demand", "spot"}, subsetLabel, fit)
		if err != nil {
			t.Fatal(err)
		}
		for node, want := range map[string]string{"n1": "spot", "": "", "gone": ""} {
			pod := podNamed("p")
			pod.Spec.NodeName = node
			if got, why := matcher.Of(pod); got != want {
				t.Errorf("on Node %q: %q (%v), want %q", node, got, why, want)
			}
		}
	})
}

func TestNewMatcherRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		names []string
		named func(*corev1.Pod) string
		want  string
	}{
		{"nothing given", nil, nil, "subsets.NewMatcher: named is required"},
		{
			"names",
			[]string{"a", "", "a"},
			subsetLabel,
			`InvalidSubsets: subsets[1]: "": the subset has no name; name each subset differently; InvalidSubsets: subsets[2]: "a": an earlier subset has the name; name each subset differently`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := subsets.NewMatcher(tc.names, tc.named, nil)
			if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	matcher, err := subsets.NewMatcher([]string{"a"}, subsetLabel, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, why := matcher.Of(podNamed("p")); got != "" || why.Code != subsets.NoSubsetFits {
		t.Errorf("without a fit %q, %v", got, why)
	}
}

// podsIn returns n ready Pods of a subset.
func podsIn(subset string, n int) (out []*corev1.Pod) {
	for i := range n {
		pod := labelled(subset)
		pod.Name = fmt.Sprint(subset, "-", i)
		pod.Spec.NodeName = "n"
		pod.CreationTimestamp = ago(time.Duration(i+1) * time.Minute)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: pod.CreationTimestamp}}
		out = append(out, pod)
	}
	return out
}

func TestRank(t *testing.T) {
	three := places{limited("a", 10), limited("b", 10), unlimited("c")}
	var all []*corev1.Pod
	for _, subset := range []string{"a", "b", "c", "gone"} {
		all = append(all, podsIn(subset, 20)...)
	}
	for _, tc := range []struct {
		name   string
		places places
		pods   []*corev1.Pod
		order  subsets.Order
		want   map[string]int // Pods by subset and cost
	}{
		{
			"WS-38 three subsets with 20 Pods each", three, all, subsets.LastFirst,
			map[string]int{"a 300": 10, "a -100": 10, "b 200": 10, "b -200": 10, "c 100": 20, " -400": 20},
		},
		{
			"WS-39 Pods of an old revision",
			places{limited("a", 5), unlimited("b")},
			append(podsIn("a", 5), podsIn("b", 5)...), subsets.FirstFirst,
			map[string]int{"a 100": 5, "b 200": 5},
		},
		{
			"WS-39 beyond the maximum, too",
			places{limited("a", 2), limited("b", 1)},
			append(podsIn("a", 3), podsIn("b", 2)...), subsets.FirstFirst,
			map[string]int{"a 100": 2, "a -200": 1, "b 200": 1, "b -100": 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[string]int{}
			before := math.MinInt
			for _, r := range subsets.Rank(tc.places, tc.pods, subsetLabel, tc.order) {
				got[fmt.Sprint(r.Subset, " ", r.Cost)]++
				if r.Cost < before {
					t.Errorf("%s is too late", r.Pod.Name)
				}
				before = r.Cost
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRankSurplus: in each case, a subset has one Pod too many, and a different property of the Pods decides which
// Pod is surplus.
func TestRankSurplus(t *testing.T) {
	change := func(f func(*corev1.Pod)) *corev1.Pod {
		pod := podsIn("a", 1)[0]
		pod.Name = "first"
		f(pod)
		return pod
	}
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	for _, tc := range []struct {
		name  string
		first *corev1.Pod
		then  *corev1.Pod
	}{
		{
			"WS-40 unassigned", change(func(p *corev1.Pod) { p.Spec.NodeName = "" }),
			change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		},
		{
			"WS-40 pending", change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
			change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }),
		},
		{"WS-40 unknown", change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), change(unready)},
		{
			"WS-40 not ready", change(unready),
			change(func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = ago(time.Second) }),
		},
		{"WS-40 later ready", change(func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = ago(time.Second) }), change(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}}
		})},
		{"WS-40 restarted more often", change(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}}
		}), change(func(p *corev1.Pod) { p.CreationTimestamp = ago(time.Second) })},
		{
			"WS-40 newer", change(func(p *corev1.Pod) { p.CreationTimestamp = ago(time.Second) }),
			change(func(*corev1.Pod) {}),
		},
		{
			"WS-41 whatever cost the Pod had", change(unready),
			change(func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-500"} }),
		},
		{"WS-41 also on a crowded Node", change(func(p *corev1.Pod) { p.CreationTimestamp = ago(time.Second) }), change(func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.PodDeletionCost: "-500"}
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.then.Name = "then"
			for _, pods := range [][]*corev1.Pod{{tc.first, tc.then}, {tc.then, tc.first}} {
				got := subsets.Rank(places{limited("a", 1)}, pods, subsetLabel, subsets.LastFirst)
				if got[0].Pod != tc.first || got[0].Cost != -100 || got[1].Cost != 100 {
					t.Errorf("%s with %d goes before %s with %d", got[0].Pod.Name, got[0].Cost, got[1].Pod.Name, got[1].Cost)
				}
			}
		})
	}
}

func pendingPod(created, gaveUp time.Duration, why string) *corev1.Pod {
	pod := podNamed("p")
	pod.CreationTimestamp = ago(created)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: why, LastTransitionTime: ago(gaveUp)},
	}}
	return pod
}

func TestIsStuck(t *testing.T) {
	const s = time.Second
	policy := subsets.Policy{PendingFor: 30 * s}
	change := func(pod *corev1.Pod, f func(*corev1.Pod)) *corev1.Pod { f(pod); return pod }
	late := func() *corev1.Pod { return pendingPod(60*s, 59*s, corev1.PodReasonUnschedulable) }
	for _, tc := range []struct {
		name   string
		policy subsets.Policy
		pod    *corev1.Pod
		stuck  bool
		wait   time.Duration
	}{
		{"WS-44 for too long", policy, late(), true, 0},
		{"WS-44 not yet", policy, pendingPod(20*s, 20*s, corev1.PodReasonUnschedulable), false, 10 * s},
		{"WS-44 exactly now", policy, pendingPod(30*s, 30*s, corev1.PodReasonUnschedulable), false, 1},
		{
			"WS-44 since the scheduler gave up, not since creation", policy,
			pendingPod(60*s, 5*s, corev1.PodReasonUnschedulable), false, 25 * s,
		},
		{"WS-44 not unschedulable", policy, pendingPod(60*s, 60*s, corev1.PodReasonSchedulingGated), false, 0},
		{
			"WS-44 terminating", policy, change(late(), func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(0)) }),
			false, 0,
		},
		{"WS-44 on a Node", policy, change(late(), func(p *corev1.Pod) { p.Spec.NodeName = "n" }), false, 0},
		{
			"WS-44 scheduled", policy,
			change(late(), func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }), false, 0,
		},
		{"WS-43 without a limit", subsets.Policy{}, late(), false, 0},
		{"UD-21 no condition yet", policy, change(late(), func(p *corev1.Pod) { p.Status.Conditions = nil }), false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if stuck, wait := tc.policy.IsStuck(tc.pod, start); stuck != tc.stuck || wait != tc.wait {
				t.Errorf("%v, %v; want %v, %v", stuck, wait, tc.stuck, tc.wait)
			}
		})
	}
}

func TestNext(t *testing.T) {
	const s = time.Second
	policy := subsets.Policy{PendingFor: 30 * s}
	was := func(standing subsets.Standing, d time.Duration) subsets.Mark {
		return subsets.Mark{Standing: standing, Since: start.Add(-d)}
	}
	open, closed, now := subsets.Open, subsets.Closed, time.Duration(0)
	for _, tc := range []struct {
		name   string
		policy subsets.Policy
		was    subsets.Mark
		stuck  int
		want   subsets.Mark
		wait   time.Duration
	}{
		{"UD-26 a new subset is open", policy, subsets.Mark{}, 0, subsets.Mark{Standing: open}, 0},
		{"WS-45 a stuck Pod closes", policy, was(open, 50*s), 1, was(closed, now), 0},
		{"WS-46 still closed", policy, was(closed, 299*s), 0, was(closed, 299*s), s},
		{"WS-46 open again", policy, was(closed, 301*s), 0, was(open, now), 0},
		{
			"UD-23 after the caller's time",
			subsets.Policy{PendingFor: s, ClosedFor: 10 * s},
			was(closed, 11*s), 0,
			was(open, now), 0,
		},
		{"UD-23 not while Pods are stuck", policy, was(closed, 301*s), 2, was(closed, 301*s), 0},
		{"WS-43 without a limit everything is open", subsets.Policy{}, was(closed, 10*s), 5, was(open, now), 0},
		{"an open subset stays open since then", policy, was(open, 500*s), 0, was(open, 500*s), 0},
		{"the clocks differ a little", policy, was(closed, -2*s), 0, was(closed, -2*s), 300 * s},
		{
			"a time from far in the future does not close for ever", policy, was(closed, -time.Hour), 0,
			was(open, now), 0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, wait := tc.policy.Next(tc.was, tc.stuck, start)
			if diff := cmp.Diff(tc.want, got); diff != "" || wait != tc.wait {
				t.Errorf("look again after %v, want %v; (-want +got):\n%s", wait, tc.wait, diff)
			}
		})
	}
}

func TestIsReserved(t *testing.T) {
	const s = time.Second
	policy := subsets.Policy{PendingFor: 30 * s, ClosedFor: 60 * s}
	ready := func(d time.Duration) *corev1.Pod {
		pod := podsIn("a", 1)[0]
		pod.Status.Conditions[0].LastTransitionTime = ago(d)
		return pod
	}
	late := pendingPod(40*s, 40*s, corev1.PodReasonUnschedulable)
	early := pendingPod(20*s, 20*s, corev1.PodReasonUnschedulable)
	unready := ready(90 * s)
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	yes, no := ptr.To(true), ptr.To(false)
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		was  *bool
		in   subsets.Standing
		want bool
		wait time.Duration
	}{
		{"UD-28 unschedulable for long", late, no, subsets.Open, true, 0},
		{"UD-28 not yet", early, no, subsets.Open, false, 10 * s},
		{"UD-28 new in a closed subset", early, nil, subsets.Closed, true, 0},
		{"UD-28 new in an open subset", early, nil, subsets.Open, false, 10 * s},
		{"UD-28 not new in a closed subset", early, no, subsets.Closed, false, 10 * s},
		{"UD-29 pending", late, yes, subsets.Closed, true, 0},
		{"UD-29 not ready", unready, yes, subsets.Closed, true, 0},
		{"UD-29 ready for a moment", ready(50 * s), yes, subsets.Closed, true, 10 * s},
		{"UD-29 ready for long", ready(60 * s), yes, subsets.Closed, false, 0},
		{"UD-29 stays so", ready(s), no, subsets.Closed, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, wait := policy.IsReserved(tc.pod, tc.was, tc.in, start); got != tc.want || wait != tc.wait {
				t.Errorf("%v, %v; want %v, %v", got, wait, tc.want, tc.wait)
			}
		})
	}
}

func TestProving(t *testing.T) {
	for _, tc := range []struct {
		name     string
		was      subsets.Standing
		reserved int
		want     subsets.Standing
	}{
		{"UD-30 a reserved Pod closes", subsets.Open, 1, subsets.Closed},
		{"UD-30 also on trial", subsets.OnTrial, 1, subsets.Closed},
		{"UD-30 none is reserved any more", subsets.Closed, 0, subsets.OnTrial},
		{"UD-30 open stays open", subsets.Open, 0, subsets.Open},
		{"UD-26 a new subset is open", "", 0, subsets.Open},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := subsets.Proving(tc.was, tc.reserved); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestRankLeavesOut: Rank leaves out Pods that are being deleted and Pods that have ended.
func TestRankLeavesOut(t *testing.T) {
	pod := func(name string, edit func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"subset": "a"}}, Spec: corev1.PodSpec{NodeName: "n"}}
		edit(p)
		return p
	}
	deleted := metav1.Now()
	pods := []*corev1.Pod{
		pod("ending", func(p *corev1.Pod) { p.DeletionTimestamp = &deleted }),
		pod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("serves", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }),
	}
	got := subsets.Rank(places{limited("a", 1)}, pods, func(p *corev1.Pod) string { return p.Labels["subset"] }, subsets.LastFirst)
	if len(got) != 1 || got[0].Pod.Name != "serves" || got[0].Cost != 100 {
		t.Errorf("%+v", got)
	}
}
