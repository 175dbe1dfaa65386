package podcontrol_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

func onNode(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

func TestPerNode(t *testing.T) {
	type pod = pernode.Pod
	hourAgo := noon.Add(-time.Hour)
	// want is an available Pod on its Node, changed.
	want := func(change ...func(*pod)) pod {
		p := pod{Name: "agent-x", Node: "n1", Scheduled: true, Created: hourAgo, Updated: true, Health: rollout.Available, Ready: true}
		for _, f := range change {
			f(&p)
		}
		return p
	}
	gone := func(health rollout.Health, ready bool) func(*pod) {
		return func(p *pod) { p.Health, p.Ready = health, ready }
	}
	old := func(p *pod) { p.Updated = false }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) }
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		minReady time.Duration
		want     pod
	}{
		{name: "available", pod: member("agent-x", onNode("n1")), want: want()},
		{name: "old", pod: member("agent-x", onNode("n1"), labelled("x.io/revision", "1")), want: want(func(p *pod) { p.Updated = false })},
		{
			name: "not bound yet", pod: member("agent-x", func(p *corev1.Pod) { nodefit.Pin(&p.Spec, "n2") }),
			want: want(func(p *pod) { p.Node, p.Scheduled = "n2", false }),
		},
		{
			name: "bound elsewhere than it was made for", pod: member("agent-x", onNode("n1"), func(p *corev1.Pod) { nodefit.Pin(&p.Spec, "n2") }),
			want: want(),
		},
		{name: "of no Node", pod: member("agent-x"), want: want(func(p *pod) { p.Node, p.Scheduled = "", false })},
		{name: "younger", pod: member("agent-x", onNode("n1"), created(time.Minute)), want: want(func(p *pod) { p.Created = noon.Add(-time.Minute) })},
		{name: "broken", pod: member("agent-x", onNode("n1"), unready), want: want(func(p *pod) { p.Health, p.Ready = rollout.Unavailable, false })},
		{
			name: "ready for too short a time", pod: member("agent-x", onNode("n1")), minReady: time.Hour,
			want: want(func(p *pod) { p.Health = rollout.Unavailable }),
		},
		{
			name: "D-25 its gate is closed, whatever its condition says", pod: member("agent-x", onNode("n1"), func(p *corev1.Pod) {
				p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x.io/Updated"}}
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "x.io/Updated", Status: corev1.ConditionFalse})
			}), want: want(func(p *pod) { p.Health = rollout.Unavailable }),
		},
		{name: "terminating", pod: member("agent-x", onNode("n1"), deleted), want: want(gone(rollout.Terminating, true))},
		{name: "ended", pod: member("agent-x", onNode("n1"), failed), want: want(gone(rollout.Ended, false))},
		{
			name: "ended, and another is not to be made yet", pod: member("agent-x", onNode("rests"), failed),
			want: want(gone(rollout.Ended, false), func(p *pod) { p.Node, p.Resting = "rests", true }),
		},
		{name: "ended, old", pod: member("agent-x", onNode("n1"), failed, labelled("x.io/revision", "1")), want: want(gone(rollout.Ended, false), old)},
		{name: "D-9 terminating, old", pod: member("agent-x", onNode("n1"), deleted, labelled("x.io/revision", "1")), want: want(gone(rollout.Terminating, true), old)},
		{name: "D-3 ended and terminating: it holds nothing of its Node", pod: member("agent-x", onNode("n1"), failed, deleted)},
		{name: "nor does one that is not selected", pod: member("agent-x", onNode("n1"), failed, deleted, labelled("app", "other"))},
		{name: "not selected", pod: member("agent-x", onNode("n1"), labelled("app", "other")), want: want(gone(rollout.Terminating, true), func(p *pod) { p.NotSelected = true })},
		{
			name: "L-2 waits to be deleted", pod: member("agent-x", onNode("n1"), labelled("x.io/state", "PreparingDelete")),
			want: want(func(p *pod) { p.Health, p.PreDeleting = rollout.Unavailable, true }),
		},
		{name: "asked to be deleted: that is for others", pod: member("agent-x", onNode("n1"), labelled("x.io/delete", "")), want: want()},
		{
			name: "unreadable", pod: member("agent-x", onNode("n1"), func(p *corev1.Pod) { p.Annotations = map[string]string{"x.io/update": "{"} }),
			want: want(func(p *pod) { p.Rest = time.Hour }),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			what := podcontrol.Want{Update: "agent-2", MinReady: tc.minReady, Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}
			set := podcontrol.NewReader(numberedControl(t)).Read("u", []*corev1.Pod{tc.pod}, what, noon)
			got := set.PerNode(podcontrol.PerNodeOptions{
				Rest: func(p *podcontrol.Pod) time.Duration {
					if p.Unreadable != nil {
						return time.Hour
					}
					return 0
				},
				Ended: func(pod *corev1.Pod, node string) time.Duration {
					if pod == tc.pod && node == "rests" {
						return time.Second
					}
					return 0
				},
			})
			wanted := []pernode.Pod{tc.want}
			if tc.want.Health == 0 {
				wanted = []pernode.Pod{}
			}
			if diff := cmp.Diff(wanted, got.Pods); diff != "" {
				t.Errorf("Pods (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPerNodeOf: Of returns the Pods at the given positions, in any state.
func TestPerNodeOf(t *testing.T) {
	pods := []*corev1.Pod{
		member("a", onNode("n1")), member("b", onNode("n1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		member("c", onNode("n2"), labelled("app", "other")), member("d", onNode("n2")),
	}
	what := podcontrol.Want{Update: "agent-2", Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}
	perNode := podcontrol.NewReader(numberedControl(t)).Read("u", pods, what, noon).PerNode(podcontrol.PerNodeOptions{})
	if len(perNode.Pods) != len(pods) {
		t.Fatalf("%d Pods are described, want all %d", len(perNode.Pods), len(pods))
	}
	var all []int
	for i := range perNode.Pods {
		all = append([]int{i}, all...)
	}
	for i, pod := range perNode.Of(all) {
		if described := perNode.Pods[all[i]]; described.Name != pod.Name || described.Node != pod.Spec.NodeName {
			t.Errorf("position %d is %s on %s, described as %+v", all[i], pod.Name, pod.Spec.NodeName, described)
		}
	}
	if none := perNode.Of(nil); len(none) != 0 {
		t.Errorf("no positions lead to %q", podNames(none))
	}
}

// stateless removes the lifecycle state from a Pod.
func stateless(pod *corev1.Pod) { delete(pod.Labels, stateLabel) }

func gateless(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }

func onlyPreDelete(c *podcontrol.Config) { c.OnlyPreDelete = true }

// TestOnlyPreDelete: a Pod has a lifecycle state only while its deletion waits for its hook.
func TestOnlyPreDelete(t *testing.T) {
	c := control(t, onlyPreDelete)
	hooks := func(notReady bool) podcontrol.Rules {
		return podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible, Hooks: lifecycle.Hooks{PreDelete: drain(notReady)}}
	}
	plan := updater(t).Plan(template("app:v1"), template("app:v2"))
	update := func(pod *corev1.Pod, rules podcontrol.Rules, now time.Time) (podcontrol.Step, error) {
		return c.Update(pod, rules, plan, "web-2", now)
	}
	blocked := template("app:v2")
	blocked.Spec.HostNetwork = true
	replace := func(pod *corev1.Pod, rules podcontrol.Rules, now time.Time) (podcontrol.Step, error) {
		return c.Update(pod, rules, updater(t).Plan(template("app:v1"), blocked), "web-2", now)
	}
	begun := func(pod *corev1.Pod) *corev1.Pod {
		step, err := update(pod, hooks(false), begin)
		if err != nil {
			t.Fatal(err)
		}
		pod = patched(t, pod, step, begin)
		pod.Status.ContainerStatuses[0].Image, pod.Status.ContainerStatuses[0].ImageID = "app:v2", "sha256:2"
		pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
		return pod
	}
	type call = func(*corev1.Pod, podcontrol.Rules, time.Time) (podcontrol.Step, error)
	for _, tc := range []struct {
		name  string
		do    call
		pod   *corev1.Pod
		rules podcontrol.Rules
		want  said
	}{
		{"L-8 a new Pod that runs", c.Next, newPod("a", scheduled, reported, containersReady, stateless), hooks(false), said{Act: podcontrol.Patch, Requests: []string{"status: InPlace=True"}}},
		{"nothing to do", c.Next, newPod("a", running, heldBy("[]"), stateless), hooks(false), said{}},
		{
			"D-20 an update in place begins", update, newPod("a", running, stateless), hooks(false),
			said{Act: podcontrol.Start, Requests: []string{"status: InPlace=False", ": revision=web-2, hash=2, app:v2"}},
		},
		{
			"D-20 also where the hook would hold a deletion", update, newPod("a", running, stateless, withHook), hooks(true),
			said{Act: podcontrol.Start, Requests: []string{"status: InPlace=False", ": revision=web-2, hash=2, app:v2"}},
		},
		{"D-20 and ends", c.Next, begun(newPod("a", running, heldBy("[]"), stateless)), hooks(false), said{Act: podcontrol.Patch, Requests: []string{"status: InPlace=True"}}},
		{"L-1 deleted: no hook holds it", c.Delete, newPod("a", running, stateless), hooks(false), said{Act: podcontrol.Delete}},
		{
			"L-2 deleted: its hook holds it", c.Delete, newPod("a", running, stateless, withHook), hooks(false),
			said{Act: podcontrol.Patch, Requests: []string{": state=PreparingDelete"}, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{
			"L-2 it goes on waiting, and nothing is written", c.Delete, newPod("a", running, withHook, inState("PreparingDelete")), hooks(false),
			said{Act: podcontrol.Patch, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{"L-2 nor does its own loop write", c.Next, newPod("a", running, heldBy("[]"), withHook, inState("PreparingDelete")), hooks(false), said{Why: []reason.Code{lifecycle.HookHolds}}},
		{"L-2 its hook has let go", c.Delete, newPod("a", running, inState("PreparingDelete")), hooks(false), said{Act: podcontrol.Delete}},
		{
			"L-11 its hook takes it out of service", c.Delete, newPod("a", running, stateless, withHook, heldBy("[]")), hooks(true),
			said{Act: podcontrol.Patch, Requests: []string{"status: state=PreparingDelete, Hooks=False " + heldForDeletion}, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{
			"L-2 recreated in place of an update: its hook holds it", replace, newPod("a", running, stateless, withHook), hooks(false),
			said{
				Act: podcontrol.Patch, Recreate: true, Requests: []string{": state=PreparingDelete, delete=recreate"},
				Why: []reason.Code{inplaceupdate.ImmutableField, lifecycle.HookHolds},
			},
		},
		{"taken back without having left", c.Cancel, newPod("a", running, stateless), hooks(false), said{Act: podcontrol.Patch}},
		{"settled without having left", c.Settle, newPod("a", running, stateless), hooks(false), said{Act: podcontrol.Patch}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := tc.do(tc.pod, tc.rules, begin.Add(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, say(t, tc.pod, step, begin.Add(time.Second))); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
	for name, count := range map[string]bool{"L-8 new": false, "L-8 new, counting at once": true} {
		t.Run(name, func(t *testing.T) {
			c := control(t, onlyPreDelete, func(c *podcontrol.Config) { c.CountUnscheduled = count })
			pod := c.NewPod(template("app:v1"), "default", metav1.OwnerReference{}, hooks(true), "web-2", begin)
			if diff := cmp.Diff(map[string]string{revisionLabel: "web-2", hashLabel: "2", "hook": "on"}, pod.Labels); diff != "" || len(pod.Annotations) > 0 {
				t.Errorf("annotations %v, labels (-want +got):\n%s", pod.Annotations, diff)
			}
		})
	}
}

// TestOnlyPreDeleteHasNoOtherHook: an unsupported hook is an error, and nothing is done.
func TestOnlyPreDeleteHasNoOtherHook(t *testing.T) {
	c := control(t, onlyPreDelete)
	plan := updater(t).Plan(template("app:v1"), template("app:v2"))
	for name, hooks := range map[string]lifecycle.Hooks{
		"L-13 before updates": {InPlaceUpdate: drain(false)},
		"L-13 for new Pods":   {PreNormal: drain(false)},
		"L-13 beside its own": {PreDelete: drain(false), PreNormal: drain(false)},
	} {
		rules := podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible, Hooks: hooks}
		for what, do := range map[string]func(*corev1.Pod) (podcontrol.Step, error){
			"Update": func(pod *corev1.Pod) (podcontrol.Step, error) { return c.Update(pod, rules, plan, "web-2", begin) },
			"Delete": func(pod *corev1.Pod) (podcontrol.Step, error) { return c.Delete(pod, rules, begin) },
			"Next":   func(pod *corev1.Pod) (podcontrol.Step, error) { return c.Next(pod, rules, begin) },
			"Cancel": func(pod *corev1.Pod) (podcontrol.Step, error) { return c.Cancel(pod, rules, begin) },
			"Settle": func(pod *corev1.Pod) (podcontrol.Step, error) { return c.Settle(pod, rules, begin) },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				step, err := do(newPod("a", running, stateless, withHook))
				if !errors.Is(err, podcontrol.InvalidRules) || step.Act != podcontrol.Nothing || len(step.Changes) > 0 {
					t.Errorf("%+v, %v, want InvalidRules and nothing done", step, err)
				}
			})
		}
	}
}

func TestNeedsGate(t *testing.T) {
	needs := func(c *podcontrol.Config) { c.NeedsGate = true }
	plan := updater(t).Plan(template("app:v1"), template("app:v2"))
	other := template("app:v2")
	other.Spec.HostNetwork = true
	impossible := updater(t).Plan(template("app:v1"), other)
	withoutGate := newPod("a", running, gateless)
	missing := reason.Reason{
		Code: podcontrol.GateMissing, Object: reason.ObjectOf("Pod", withoutGate), Path: "spec.readinessGates", New: string(gate),
	}
	type outcome struct {
		Act      podcontrol.Act
		Recreate bool
		Why      []reason.Code
	}
	for _, tc := range []struct {
		name    string
		control *podcontrol.Control
		pod     *corev1.Pod
		plan    *inplaceupdate.Plan
		rules   podcontrol.Rules
		want    outcome
	}{
		{"D-19 it lists the gate", control(t, needs), newPod("a", running), plan, podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible}, outcome{Act: podcontrol.Start}},
		{
			"D-19 it does not: recreated", control(t, needs), withoutGate, plan,
			podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible},
			outcome{podcontrol.Delete, true, []reason.Code{podcontrol.GateMissing}},
		},
		{
			"D-19 its hook holds it", control(t, needs), newPod("a", running, gateless, withHook), plan,
			podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible, Hooks: lifecycle.Hooks{PreDelete: drain(false)}},
			outcome{podcontrol.Patch, true, []reason.Code{podcontrol.GateMissing, lifecycle.HookHolds}},
		},
		{
			"and nothing else is allowed", control(t, needs), withoutGate, plan,
			podcontrol.Rules{Policy: podcontrol.InPlaceOnly},
			outcome{podcontrol.Blocked, false, []reason.Code{podcontrol.GateMissing}},
		},
		{
			"the change is not possible in place anyway", control(t, needs), withoutGate, impossible,
			podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible},
			outcome{podcontrol.Delete, true, []reason.Code{inplaceupdate.ImmutableField}},
		},
		{"nothing is updated in place", control(t, needs), withoutGate, nil, podcontrol.Rules{}, outcome{podcontrol.Delete, true, nil}},
		{"no gate is needed", control(t), withoutGate, plan, podcontrol.Rules{Policy: podcontrol.InPlaceOnly}, outcome{Act: podcontrol.Start}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := tc.control.Update(tc.pod, tc.rules, tc.plan, "web-2", begin)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome{Act: step.Act, Recreate: step.Recreate}
			for _, why := range step.Why {
				got.Why = append(got.Why, why.Code)
				if why.Code == podcontrol.GateMissing {
					if diff := cmp.Diff(missing, why); diff != "" {
						t.Errorf("the reason (-want +got):\n%s", diff)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}
