package podcontrol_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// chosen is a Choice in which the Pods are given by their names.
type chosen struct {
	Leaving, Delete, Settle, Update []string
	Back                            bool
}

func byName(c podcontrol.Choice) chosen {
	names := func(pods []*corev1.Pod) []string {
		if len(pods) == 0 {
			return nil
		}
		return podNames(pods)
	}
	return chosen{names(c.Leaving), names(c.Delete), names(c.Settle), names(c.Update), c.Back}
}

func costs(cost string) func(*corev1.Pod) {
	return annotated("controller.kubernetes.io/pod-deletion-cost", cost)
}

func TestChooseDeletions(t *testing.T) {
	up := func(name string, more ...func(*corev1.Pod)) *corev1.Pod {
		return newPod(name, slices.Concat([]func(*corev1.Pod){running}, more)...)
	}
	leaving := inState("PreparingDelete")
	for _, tc := range []struct {
		name  string
		pods  []*corev1.Pod
		named []string
		step  rollout.Step
		want  chosen
	}{
		{"nothing to delete", []*corev1.Pod{up("a")}, nil, rollout.Step{DeleteReady: 9}, chosen{}},
		{
			"C-23 what serves least goes first",
			[]*corev1.Pod{up("a"), up("b", costs("-1")), newPod("c", scheduled), newPod("d")},
			nil,
			rollout.Step{Delete: 3, DeleteOld: 3, DeleteReady: 3},
			chosen{Delete: []string{"d", "c", "b"}},
		},
		{
			"C-16 of each revision its part",
			[]*corev1.Pod{up("a"), up("b"), up("c", updated, costs("-9")), up("d", updated)},
			nil,
			rollout.Step{Delete: 2, DeleteOld: 1, DeleteReady: 2},
			chosen{Delete: []string{"a", "c"}},
		},
		{
			"C-17 ready ones within the budget, others at once",
			[]*corev1.Pod{up("a"), up("b"), newPod("c"), newPod("d")},
			nil,
			rollout.Step{Delete: 4, DeleteOld: 4, DeleteReady: 1},
			chosen{Delete: []string{"c", "d", "a"}},
		},
		{
			"C-23 all of a revision go, and the budget has room for one: the cheapest",
			[]*corev1.Pod{up("a", costs("5")), up("b", costs("1")), up("c", costs("9"))},
			nil,
			rollout.Step{Delete: 3, DeleteOld: 3, DeleteReady: 1},
			chosen{Delete: []string{"b"}},
		},
		{
			"asked for by label and name, and nothing else meanwhile",
			[]*corev1.Pod{up("a", marked), up("b"), up("c"), newPod("d")},
			[]string{"c"},
			rollout.Step{Delete: 2, DeleteOld: 2, DeleteReady: 2},
			chosen{Delete: []string{"a", "c"}},
		},
		{
			"C-17 asked for, within the budget",
			[]*corev1.Pod{up("a", marked), up("b", marked), newPod("c", marked)},
			nil,
			rollout.Step{DeleteReady: 1},
			chosen{Delete: []string{"c", "a"}},
		},
		{
			"C-18 what waits for its hook goes on, and nothing else meanwhile",
			[]*corev1.Pod{up("a", leaving, marked), newPod("b"), up("c", leaving)},
			nil,
			rollout.Step{Delete: 1, DeleteOld: 1, DeleteReady: 1},
			chosen{Leaving: []string{"a", "c"}},
		},
		{
			"what waits, and what somebody asks for",
			[]*corev1.Pod{up("a", leaving), up("b", marked)},
			nil,
			rollout.Step{DeleteReady: 1},
			chosen{Leaving: []string{"a"}, Delete: []string{"b"}},
		},
		{"more than there are", []*corev1.Pod{up("a")}, nil, rollout.Step{Delete: 9, DeleteOld: 9, DeleteReady: 9}, chosen{Delete: []string{"a"}}},
		{"what has ended is none", []*corev1.Pod{newPod("a", ended, marked)}, []string{"a"}, rollout.Step{Delete: 1, DeleteReady: 1}, chosen{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := read(t, podcontrol.Want{Delete: tc.named}, tc.pods...)
			if diff := cmp.Diff(tc.want, byName(set.ChooseDeletions(tc.step, podcontrol.Orders{}))); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	set := read(t, podcontrol.Want{}, newPod("web-a", running), newPod("web-b", running), newPod("web-c"), newPod("web-d", running, terminating))
	if diff := cmp.Diff([]string{"web-c", "web-a", "web-b"}, podNames(set.Order(podorder.Priority{}, podorder.Scatter{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChooseUpdates(t *testing.T) {
	up := func(name string, more ...func(*corev1.Pod)) *corev1.Pod {
		return newPod(name, slices.Concat([]func(*corev1.Pod){running}, more)...)
	}
	named := func(names ...string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool { return slices.Contains(names, pod.Name) }
	}
	preparing := inState("PreparingUpdate")
	weights, err := podorder.CompileOrder("p", []podorder.OrderTerm{{Key: "rank"}})
	if err != nil {
		t.Fatal(err)
	}
	step := func(update, keep, budget int) rollout.Step {
		return rollout.Step{Candidates: max(update, -update), Back: update < 0, Keep: keep, UpdateUnavailable: budget, UpdateAtTarget: budget}
	}
	three := []*corev1.Pod{up("a"), up("b"), up("c")}
	for _, tc := range []struct {
		name   string
		pods   []*corev1.Pod
		step   rollout.Step
		orders podcontrol.Orders
		want   chosen
	}{
		{"nothing to update", []*corev1.Pod{up("a", updated)}, rollout.Step{}, podcontrol.Orders{}, chosen{}},
		{"C-19 as many as the budget", three, step(3, 0, 2), podcontrol.Orders{}, chosen{Update: []string{"a", "b"}}},
		{"C-48 a partition keeps the last", three, step(1, 2, 3), podcontrol.Orders{}, chosen{Update: []string{"a"}}},
		{
			"C-42 what serves least goes first, also without budget",
			[]*corev1.Pod{up("a"), newPod("b", scheduled)},
			step(2, 0, 1),
			podcontrol.Orders{},
			chosen{Update: []string{"b"}},
		},
		{
			"what is down already needs no room among what is unavailable",
			[]*corev1.Pod{up("a"), newPod("b"), newPod("c")},
			rollout.Step{Candidates: 3, UpdateUnavailable: 1, UpdateAtTarget: 3},
			podcontrol.Orders{},
			chosen{Update: []string{"b", "c"}},
		},
		{
			"C-42 priorities",
			[]*corev1.Pod{up("a", label("rank", "1")), up("b", label("rank", "2")), up("c")},
			step(2, 0, 2),
			podcontrol.Orders{Priority: weights},
			chosen{Update: []string{"c", "b"}},
		},
		{"what is about to start is not chosen", three, step(3, 0, 2), podcontrol.Orders{Busy: named("a")}, chosen{Update: []string{"b", "c"}}},
		{
			"what is hopeless does not use the budget up", three, step(3, 0, 2),
			podcontrol.Orders{Rest: func(p *podcontrol.Pod) time.Duration {
				if p.Name == "a" {
					return time.Minute
				}
				return 0
			}},
			chosen{Update: []string{"b", "c"}},
		},
		{
			"what is to be deleted is not updated",
			[]*corev1.Pod{up("a", marked), up("b", inState("PreparingDelete")), up("c")},
			step(3, 0, 3),
			podcontrol.Orders{},
			chosen{Update: []string{"c"}},
		},
		{"C-42 what has waited for its hook goes first", []*corev1.Pod{up("a"), up("b", preparing)}, step(1, 0, 2), podcontrol.Orders{}, chosen{Update: []string{"b"}}},
		{"L-6 rolled back while it waited", []*corev1.Pod{up("a", preparing, updated), up("b", updated)}, rollout.Step{}, podcontrol.Orders{}, chosen{Settle: []string{"a"}}},
		{
			"a partition was raised while it waited",
			[]*corev1.Pod{up("a", preparing), up("b", updated)},
			step(0, 1, 1),
			podcontrol.Orders{},
			chosen{Settle: []string{"a"}},
		},
		{
			"a partition leaves room for one of two that wait",
			[]*corev1.Pod{up("a", preparing), up("b", preparing)},
			step(1, 1, 9),
			podcontrol.Orders{},
			chosen{Settle: []string{"b"}, Update: []string{"a"}},
		},
		{
			"back",
			[]*corev1.Pod{up("a", updated), up("b", updated), up("c")},
			step(-1, 1, 3),
			podcontrol.Orders{},
			chosen{Back: true, Update: []string{"a"}},
		},
		{
			"back, of one that waits to go there",
			[]*corev1.Pod{up("a", updated), up("b", updated, preparing), up("c", preparing)},
			step(-1, 1, 3),
			podcontrol.Orders{},
			chosen{Back: true, Settle: []string{"c"}, Update: []string{"b"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, byName(read(t, podcontrol.Want{}, tc.pods...).ChooseUpdates(tc.step, tc.orders))); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChooseCancellations(t *testing.T) {
	leaving := inState("PreparingDelete")
	pods := []*corev1.Pod{
		newPod("a", leaving), newPod("b", leaving), newPod("c", leaving, marked), newPod("d", leaving), newPod("e", running), newPod("f", marked),
	}
	for _, tc := range []struct {
		name     string
		replicas int
		hooks    lifecycle.Hooks
		pods     []*corev1.Pod
		want     []string
	}{
		{"nothing waits", 9, lifecycle.Hooks{}, []*corev1.Pod{newPod("a")}, nil},
		{"L-14 none is wanted", 1, lifecycle.Hooks{}, pods, nil},
		{"L-14 one is wanted", 2, lifecycle.Hooks{}, pods, []string{"a"}},
		{"L-14 not those that somebody has asked for", 9, lifecycle.Hooks{}, pods, []string{"a", "b"}},
		{"L-14 not one that nobody brings back into service", 9, lifecycle.Hooks{}, append([]*corev1.Pod{newPod("0", leaving, annotated(updateState, "{"))}, pods...), []string{"a", "b"}},
		{"L-14 a hook takes Pods out of service", 9, lifecycle.Hooks{PreDelete: &lifecycle.Hook{MarkNotReady: true}}, pods, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := byName(podcontrol.Choice{Leaving: read(t, podcontrol.Want{Delete: []string{"d"}}, tc.pods...).ChooseCancellations(rollout.Spec{Replicas: tc.replicas}, tc.hooks)})
			if diff := cmp.Diff(tc.want, got.Leaving); diff != "" {
				t.Errorf("cancelled (-want +got):\n%s", diff)
			}
		})
	}
}

// draw makes a set of Pods and an owner's spec from the bytes of a fuzz input. Every byte string is valid.
func draw(data []byte) (pods []*corev1.Pod, want podcontrol.Want, spec rollout.Spec, hooks lifecycle.Hooks) {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
	spec = rollout.Spec{Replicas: next(10), Partition: next(10), MaxUnavailable: next(5), MaxSurge: next(4), Rollback: next(2) == 1, InPlace: next(2) == 1, ExcludePreDeleting: next(2) == 1}
	spec.Partition = min(spec.Partition, spec.Replicas)
	if next(3) == 0 {
		spec.ScaleMaxUnavailable = ptr.To(next(4))
	}
	hooks = lifecycle.Hooks{PreDelete: &lifecycle.Hook{MarkNotReady: next(4) == 0}}
	want = podcontrol.Want{Update: "web-2", MinReady: time.Duration(next(3)) * time.Minute}
	for i := range min(len(data), 14) {
		pod := newPod(fmt.Sprint("web-", i))
		b := next(256)
		if b&1 != 0 {
			running(pod)
		}
		if b&2 != 0 {
			updated(pod)
		}
		inState([]string{"Normal", "Normal", "", "PreparingNormal", "PreparingUpdate", "Updating", "Updated", "PreparingDelete"}[b>>2&7])(pod)
		switch b >> 5 {
		case 0:
			marked(pod)
		case 1:
			want.Delete = append(want.Delete, pod.Name)
		case 2:
			ended(pod)
		case 3:
			terminating(pod)
		}
		pods = append(pods, pod)
	}
	return pods, want, spec, hooks
}

// FuzzChoose: every chosen Pod is active and chosen once, budgets hold, and a second choice from the same input is
// the same.
func FuzzChoose(f *testing.F) {
	f.Add([]byte{3, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0xE1, 0xE1, 0xE1})                   // a rollout begins
	f.Add([]byte{3, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0xE1, 0xE3, 0xE3, 0xE3})             // a partition was raised, with a rollback
	f.Add([]byte{1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0xE1, 0xFD, 0xFD, 0xE0, 0x01, 0x21}) // scaled in, with hooks
	f.Add([]byte{9, 4, 2, 3, 0, 0, 1, 0, 2, 0, 1, 0xF1, 0xF3, 0x41, 0x61, 0x31})
	f.Add([]byte{})
	c := control(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, want, spec, hooks := draw(data)
		set := podcontrol.NewReader(c).Read("owner", pods, want, begin.Add(time.Minute))
		step := rollout.Plan(spec, set.Counts(false))
		deletions, updates := set.ChooseDeletions(step, podcontrol.Orders{}), set.ChooseUpdates(step, podcontrol.Orders{})
		cancelled := set.ChooseCancellations(spec, hooks)
		for name, list := range map[string][]*corev1.Pod{
			"deletions":     slices.Concat(deletions.Leaving, deletions.Delete),
			"updates":       slices.Concat(updates.Settle, updates.Update),
			"cancellations": cancelled,
		} {
			seen := map[string]bool{}
			for _, pod := range list {
				if p := set.Of(pod); p == nil || p.Pod != pod || seen[pod.Name] {
					t.Errorf("%s: %s is not active, or chosen twice", name, pod.Name)
				}
				seen[pod.Name] = true
			}
		}
		checkBudgets(t, set, step, deletions, updates)
		for _, pod := range cancelled {
			if p := set.Of(pod); !p.Leaving || p.Marked || p.Named {
				t.Errorf("%s is cancelled: %+v", pod.Name, p.Facts)
			}
		}

		slices.Reverse(pods) // a cache returns Pods in any order
		again := podcontrol.NewReader(c).Read("owner", pods, want, begin.Add(time.Minute))
		if diff := cmp.Diff(byName(deletions), byName(again.ChooseDeletions(step, podcontrol.Orders{}))); diff != "" {
			t.Errorf("deletions, the second time:\n%s", diff)
		}
		if diff := cmp.Diff(byName(updates), byName(again.ChooseUpdates(step, podcontrol.Orders{}))); diff != "" {
			t.Errorf("updates, the second time:\n%s", diff)
		}
	})
}

// checkBudgets compares the choices with the numbers in the step, independently of the code that chose the Pods.
func checkBudgets(t *testing.T, set *podcontrol.Set, step rollout.Step, deletions, updates podcontrol.Choice) {
	t.Helper()
	serving, specified, old := 0, 0, 0
	for _, pod := range deletions.Delete {
		p := set.Of(pod)
		if p.Serves() {
			serving++
		}
		if p.Specified {
			specified++
		} else if !p.Updated {
			old++
		}
	}
	if serving > step.DeleteReady {
		t.Errorf("%d serving Pods are deleted, %d may be", serving, step.DeleteReady)
	}
	if free := len(deletions.Delete) - specified; free > 0 && (specified > 0 || len(deletions.Leaving) > 0 || free > step.Delete || old > step.DeleteOld) {
		t.Errorf("%d Pods are deleted that nobody has named, %d of them old, beside %d named and %d leaving; want %d and %d", free, old, specified, len(deletions.Leaving), step.Delete, step.DeleteOld)
	}
	taken := 0
	for _, pod := range updates.Update {
		p := set.Of(pod)
		if p.Updated != updates.Back || p.Leaving || p.Specified {
			t.Errorf("%s is updated: %+v", pod.Name, *p)
		}
		if p.Available {
			taken++
		}
	}
	counts := set.Counts(false)
	down := counts.Unavailable() + counts.Old.SpecifiedUnavailable + counts.New.SpecifiedUnavailable
	if taken > 0 && down+taken > step.UpdateUnavailable {
		t.Errorf("%d available Pods are updated while %d are unavailable, %d may be", taken, down, step.UpdateUnavailable)
	}
	if n := max(step.Candidates, -step.Candidates); len(updates.Update) > n || updates.Back != (step.Candidates < 0) {
		t.Errorf("%d Pods are updated, back %t; want %d", len(updates.Update), updates.Back, step.Candidates)
	}
	for _, pod := range updates.Settle {
		if set.Of(pod).State != lifecycle.PreparingUpdate {
			t.Errorf("%s is settled in state %q", pod.Name, set.Of(pod).State)
		}
	}
}

// TestRecreationBackToTheOldRevision: a Pod waits for its hook, to be recreated at another revision. The Pod is kept
// only if its present revision has too few Pods again. Otherwise the next step would make the Pod wait again, in an
// endless loop.
func TestRecreationBackToTheOldRevision(t *testing.T) {
	c := control(t)
	rules := podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: drain(false)}}
	leaving := func(edits ...func(*corev1.Pod)) *corev1.Pod {
		return newPod("web-0", slices.Concat([]func(*corev1.Pod){running, withHook, label(stateLabel, "PreparingDelete"), label(deleteLabel, podcontrol.RecreateMark)}, edits)...)
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		spec rollout.Spec
		back bool
	}{
		{"a partition has no room for the new revision", leaving(updated), rollout.Spec{Replicas: 1, Partition: 1, Rollback: true}, false},
		{"the partition has gone down again", leaving(updated), rollout.Spec{Replicas: 1, Rollback: true}, true},
		{"a raised partition keeps the old revision", leaving(), rollout.Spec{Replicas: 1, Partition: 1, Rollback: true}, true},
		{"the partition has room for the new revision", leaving(), rollout.Spec{Replicas: 1, Rollback: true}, false},
		{"both revisions are one", leaving(updated), rollout.Spec{Replicas: 1, Partition: 1, OneRevision: true}, true},
		{"... and the Pod is at another", leaving(), rollout.Spec{Replicas: 1, OneRevision: true}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := podcontrol.NewReader(c).Read("u", []*corev1.Pod{tc.pod}, podcontrol.Want{Update: "web-2"}, begin)
			if back := len(set.ChooseCancellations(tc.spec, rules.Hooks)) == 1; back != tc.back {
				t.Errorf("taken back %t, want %t", back, tc.back)
			}
		})
	}
}

// TestMarkOfAnUpdate: a delete label set by an update requests the Pod's deletion only while the update is wanted.
func TestMarkOfAnUpdate(t *testing.T) {
	c := control(t)
	for _, tc := range []struct {
		name, mark, update string
		want               bool
	}{
		{"the update is wanted", podcontrol.RecreateMark, "web-2", true},
		{"the update is taken back", podcontrol.RecreateMark, "web-1", false},
		{"a user has marked the Pod", "true", "web-1", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod("web-0", running, withHook, label(deleteLabel, tc.mark))
			set := podcontrol.NewReader(c).Read("u", []*corev1.Pod{pod}, podcontrol.Want{Update: tc.update}, begin)
			if p := set.Active[0]; p.Marked != tc.want || p.Specified != tc.want {
				t.Errorf("marked %t, specified %t, want %t", p.Marked, p.Specified, tc.want)
			}
		})
	}
}

// TestRecreationTakenBack: a Pod that waits for its hook to be recreated for an update is kept, and loses the delete
// label, as soon as its own revision is wanted again. A Pod whose delete label a user has set is not kept.
func TestRecreationTakenBack(t *testing.T) {
	c := control(t)
	rules := podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: drain(false)}}
	leaving := func(mark string) *corev1.Pod {
		return newPod("web-0", running, withHook, label(stateLabel, "PreparingDelete"), label(deleteLabel, mark))
	}
	for _, tc := range []struct {
		name, mark, update string
		spec               rollout.Spec
		back               bool
	}{
		{"the update goes on", podcontrol.RecreateMark, "web-2", rollout.Spec{}, false},
		{"the update is taken back", podcontrol.RecreateMark, "web-1", rollout.Spec{}, true},
		{"a user has marked the Pod", "true", "web-1", rollout.Spec{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := leaving(tc.mark)
			set := podcontrol.NewReader(c).Read("u", []*corev1.Pod{pod}, podcontrol.Want{Update: tc.update}, begin)
			tc.spec.Replicas = 1
			if back := len(set.ChooseCancellations(tc.spec, rules.Hooks)) == 1; back != tc.back {
				t.Errorf("taken back %t, want %t", back, tc.back)
			}
			members := set.Numbered("web", podcontrol.NumberedOptions{}, begin)
			wanted, err := ordinals.Of(ordinals.Paths{}, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			step, err := numbered.Plan(numbered.Spec{Wanted: wanted, MaxUnavailable: 1, Parallel: true}, members.Pods)
			if err != nil || (len(step.Cancel) == 1) != tc.back {
				t.Errorf("%+v, %v, want taken back %t", step, err, tc.back)
			}
			cancelled, err := c.Cancel(pod, rules, begin)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{": state=PreparingNormal"}
			if tc.mark == podcontrol.RecreateMark {
				want = []string{": state=PreparingNormal, delete="}
			}
			if diff := cmp.Diff(want, say(t, pod, cancelled, begin).Requests); diff != "" {
				t.Errorf("Cancel (-want +got):\n%s", diff)
			}
		})
	}
}
