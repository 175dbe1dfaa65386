package podcontrol_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/reason"
)

// drain returns a hook that holds Pods by the label of withHook, and that takes Pods out of service if notReady is
// true.
func drain(notReady bool) *lifecycle.Hook {
	return &lifecycle.Hook{Labels: map[string]string{"hook": "on"}, MarkNotReady: notReady}
}

var withHook = label("hook", "on")

// said is a short form of a step: the act, the requests in order, and the codes of its reasons.
type said struct {
	Act      podcontrol.Act
	Recreate bool
	Requests []string
	Why      []reason.Code
	After    time.Duration
}

// say merges the changes of a step, and lists for each request the subresource, the labels of state, revision and
// deletion, the image, and the conditions with their holders.
func say(t *testing.T, pod *corev1.Pod, step podcontrol.Step, now time.Time) said {
	t.Helper()
	before := pod.DeepCopy()
	patches, err := podpatch.Merge(pod, now, step.Changes...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Fatalf("the Pod was modified:\n%s", diff)
	}
	out := said{Act: step.Act, Recreate: step.Recreate, After: step.RequeueAfter}
	for _, request := range patches.Requests {
		out.Requests = append(out.Requests, describe(t, request))
	}
	for _, why := range step.Why {
		out.Why = append(out.Why, why.Code)
	}
	return out
}

func describe(t *testing.T, request podpatch.Patch) string {
	t.Helper()
	var body corev1.Pod
	if err := json.Unmarshal(request.Body, &body); err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, key := range []string{stateLabel, revisionLabel, hashLabel, deleteLabel} {
		if value, ok := body.Labels[key]; ok {
			words = append(words, strings.TrimPrefix(key, "example.com/")+"="+value)
		}
	}
	for _, c := range body.Spec.Containers {
		words = append(words, c.Image)
	}
	for _, c := range body.Status.Conditions {
		if c.Type == corev1.PodReady {
			continue // tests of package podpatch check the Ready condition
		}
		words = append(words, strings.TrimSpace(strings.TrimPrefix(string(c.Type), "example.com/")+"="+string(c.Status)+" "+c.Message))
	}
	return request.Subresource + ": " + strings.Join(words, ", ")
}

const (
	heldForUpdate   = `[{"userAgent":"hooks","key":"inPlaceUpdate"}]`
	heldForDeletion = `[{"userAgent":"hooks","key":"preDelete"}]`
)

// TestInvalidRules: invalid rules delete no Pod and write nothing.
func TestInvalidRules(t *testing.T) {
	noGate := func(c *podcontrol.Config) { c.HookGate, c.Holder = "", nil }
	noStates := func(c *podcontrol.Config) { c.Lifecycle = lifecycle.Machine{} }
	drain := podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: &lifecycle.Hook{Finalizers: []string{"drain"}, MarkNotReady: true}}}
	pause := podcontrol.Rules{Hooks: lifecycle.Hooks{InPlaceUpdate: &lifecycle.Hook{Finalizers: []string{"drain"}, MarkNotReady: true}}}
	plan := &inplaceupdate.Plan{}
	for _, tc := range []struct {
		name     string
		control  *podcontrol.Control
		rules    podcontrol.Rules
		plan     *inplaceupdate.Plan
		revision string
	}{
		{"a policy that nobody knows", control(t), podcontrol.Rules{Policy: "InPlaceIfPosible"}, plan, "web-2"},
		{"no revision", control(t), podcontrol.Rules{}, nil, ""},
		{"no plan", control(t), podcontrol.Rules{Policy: podcontrol.InPlaceOnly}, nil, "web-2"},
		{"a Control that nobody made", &podcontrol.Control{}, podcontrol.Rules{}, plan, "web-2"},
		{"hooks without states", control(t, noStates), drain, plan, "web-2"},
		{"a deletion hook without its gate", control(t, noGate), drain, plan, "web-2"},
		{"an update hook without its gate", control(t, noGate), pause, plan, "web-2"},
		{"a hook that never holds a Pod", control(t), podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: &lifecycle.Hook{}}}, plan, "web-2"},
		{"another one", control(t), podcontrol.Rules{Hooks: lifecycle.Hooks{InPlaceUpdate: &lifecycle.Hook{MarkNotReady: true}}}, plan, "web-2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod("a", running)
			step, err := tc.control.Update(pod, tc.rules, tc.plan, tc.revision, begin)
			if !errors.Is(err, podcontrol.InvalidRules) || step.Act != podcontrol.Nothing {
				t.Errorf("Update = %+v, %v, want InvalidRules and nothing done", step, err)
			}
			if tc.plan == nil || tc.rules.Policy != "" {
				return
			}
			step, err = tc.control.Delete(pod, tc.rules, begin)
			if !errors.Is(err, podcontrol.InvalidRules) || step.Act != podcontrol.Nothing {
				t.Errorf("Delete = %+v, %v, want InvalidRules and nothing done", step, err)
			}
		})
	}
}

// endedForGood gives a Pod a container that has ended and never starts again.
func endedForGood(pod *corev1.Pod) {
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
}

func TestUpdate(t *testing.T) {
	image, host := template("app:v2"), template("app:v1")
	host.Spec.HostNetwork = true
	metadata := template("app:v1")
	metadata.Labels = map[string]string{"note": "new"}
	ifPossible, only := podcontrol.InPlaceIfPossible, podcontrol.InPlaceOnly
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		rules podcontrol.Rules
		to    *corev1.PodTemplateSpec
		want  said
	}{
		{"the zero rules leave a Pod at the revision", newPod("a", running, label(revisionLabel, "web-2")), podcontrol.Rules{}, image, said{}},
		{"so do rules in place", newPod("a", running, label(revisionLabel, "web-2")), podcontrol.Rules{Policy: only}, host, said{}},
		{"the zero rules recreate", newPod("a", running), podcontrol.Rules{}, image, said{Act: podcontrol.Delete, Recreate: true}},
		{"Recreate", newPod("a", running), podcontrol.Rules{Policy: podcontrol.Recreate}, image, said{Act: podcontrol.Delete, Recreate: true}},
		{
			"U-1 in place", newPod("a", running),
			podcontrol.Rules{Policy: ifPossible},
			image,
			said{Act: podcontrol.Start, Requests: []string{"status: InPlace=False", ": state=Updating, revision=web-2, hash=2, app:v2"}},
		},
		{
			"not possible", newPod("a", running),
			podcontrol.Rules{Policy: ifPossible},
			host,
			said{Act: podcontrol.Delete, Recreate: true, Why: []reason.Code{inplaceupdate.ImmutableField}},
		},
		{
			"not possible, and nothing else is allowed", newPod("a", running),
			podcontrol.Rules{Policy: only},
			host,
			said{Act: podcontrol.Blocked, Why: []reason.Code{inplaceupdate.ImmutableField}},
		},
		{
			"possible, but not for a Pod that has ended", newPod("a", running, endedForGood),
			podcontrol.Rules{Policy: ifPossible},
			image,
			said{Act: podcontrol.Delete, Recreate: true, Why: []reason.Code{inplaceupdate.ContainerEnded}},
		},
		{
			"possible, but not for a Pod that has ended, and nothing else is allowed", newPod("a", running, endedForGood),
			podcontrol.Rules{Policy: only},
			image,
			said{Act: podcontrol.Blocked, Why: []reason.Code{inplaceupdate.ContainerEnded}},
		},
		{
			"L-2 recreated, and its hook holds it: nobody is to cancel that", newPod("a", running, withHook),
			podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: drain(false)}},
			image,
			said{Act: podcontrol.Patch, Recreate: true, Requests: []string{": state=PreparingDelete, delete=recreate"}, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{
			"L-3 its hook holds it", newPod("a", running, withHook),
			podcontrol.Rules{Policy: only, Hooks: lifecycle.Hooks{InPlaceUpdate: drain(false)}},
			image,
			said{Act: podcontrol.Patch, Requests: []string{": state=PreparingUpdate"}, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{
			"L-11 its hook takes it out of service", newPod("a", running, withHook, heldBy("[]")),
			podcontrol.Rules{Policy: only, Hooks: lifecycle.Hooks{InPlaceUpdate: drain(true)}},
			image,
			said{Act: podcontrol.Patch, Requests: []string{"status: state=PreparingUpdate, Hooks=False " + heldForUpdate}, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{
			"metadata alone needs no state", newPod("a", running),
			podcontrol.Rules{Policy: only},
			metadata,
			said{Act: podcontrol.Start, Requests: []string{": revision=web-2, hash=2"}},
		},
		{
			"metadata alone, with a hook that has let go", newPod("a", running),
			podcontrol.Rules{Policy: only, Hooks: lifecycle.Hooks{InPlaceUpdate: drain(false)}},
			metadata,
			said{Act: podcontrol.Start, Requests: []string{": state=Updating, revision=web-2, hash=2"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := control(t).Update(tc.pod, tc.rules, updater(t).Plan(template("app:v1"), tc.to), "web-2", begin)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, say(t, tc.pod, step, begin)); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnreadablePods: an unreadable Pod is not taken out of service for a hook, because no later step would bring the
// Pod back into service.
func TestUnreadablePods(t *testing.T) {
	rules := podcontrol.Rules{Policy: podcontrol.InPlaceOnly, Hooks: lifecycle.Hooks{InPlaceUpdate: drain(true), PreDelete: drain(true)}}
	plan := updater(t).Plan(template("app:v1"), template("app:v2"))
	for name, tc := range map[string]struct {
		spoil func(*corev1.Pod)
		code  reason.Code
	}{
		"the state of its update": {annotated(updateState, "{"), inplaceupdate.UnreadableState},
		"who holds its gate":      {heldBy("x"), podreadiness.UnreadableMessage},
	} {
		pod := newPod("a", running, withHook, tc.spoil)
		step, err := control(t).Update(pod, rules, plan, "web-2", begin)
		if !errors.Is(err, tc.code) || step.Act != podcontrol.Nothing {
			t.Errorf("%s: Update = %+v, %v", name, step, err)
		}
		if step, err := control(t).Next(pod, rules, begin); !errors.Is(err, tc.code) || step.Act != podcontrol.Nothing {
			t.Errorf("%s: Next = %+v, %v", name, step, err)
		}
	}
	// The deletion does not depend on the state of the update.
	spoilt := newPod("a", running, annotated(updateState, "{"))
	if step, err := control(t).Delete(spoilt, rules, begin); err != nil || step.Act != podcontrol.Delete {
		t.Errorf("Delete = %+v, %v", step, err)
	}
	if _, err := control(t).Delete(newPod("a", running, withHook, heldBy("x")), rules, begin); !errors.Is(err, podreadiness.UnreadableMessage) {
		t.Errorf("Delete of a Pod whose gate cannot be read = %v", err)
	}
}

func TestDeleteCancelSettle(t *testing.T) {
	hooks := func(notReady bool) podcontrol.Rules {
		return podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: drain(notReady), InPlaceUpdate: drain(notReady)}}
	}
	c := control(t)
	type call = func(*corev1.Pod, podcontrol.Rules, time.Time) (podcontrol.Step, error)
	for _, tc := range []struct {
		name  string
		do    call
		pod   *corev1.Pod
		rules podcontrol.Rules
		want  said
	}{
		{"Delete", c.Delete, newPod("a", running), podcontrol.Rules{}, said{Act: podcontrol.Delete}},
		{"L-1 Delete, whose hook is not on the Pod", c.Delete, newPod("a", running), hooks(false), said{Act: podcontrol.Delete}},
		{
			"L-2 Delete, and its hook holds it", c.Delete, newPod("a", running, withHook), hooks(false),
			said{Act: podcontrol.Patch, Requests: []string{": state=PreparingDelete"}, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{
			"L-2 Delete again says the same and writes nothing", c.Delete, newPod("a", running, withHook, inState("PreparingDelete")), hooks(false),
			said{Act: podcontrol.Patch, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{
			"L-11 Delete takes it out of service", c.Delete, newPod("a", running, withHook, heldBy("[]")), hooks(true),
			said{Act: podcontrol.Patch, Requests: []string{"status: state=PreparingDelete, Hooks=False " + heldForDeletion}, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{"L-2 its hook has let go", c.Delete, newPod("a", running, inState("PreparingDelete")), hooks(false), said{Act: podcontrol.Delete}},
		{
			"L-14 Cancel", c.Cancel, newPod("a", running, withHook, inState("PreparingDelete")), hooks(false),
			said{Act: podcontrol.Patch, Requests: []string{": state=PreparingNormal"}},
		},
		{
			"L-14 Cancel, out of service since its hook was another", c.Cancel, newPod("a", running, withHook, inState("PreparingDelete"), heldBy(heldForDeletion)), hooks(false),
			said{Act: podcontrol.Patch, Requests: []string{"status: state=PreparingNormal, Hooks=True []"}},
		},
		{
			"L-14 Cancel, out of service", c.Cancel, newPod("a", running, withHook, inState("PreparingDelete"), heldBy(heldForDeletion)), hooks(true),
			said{Act: podcontrol.Patch, Why: []reason.Code{lifecycle.HookHolds}},
		},
		{"Cancel of what is not being deleted", c.Cancel, newPod("a", running), hooks(false), said{Act: podcontrol.Patch}},
		{
			"L-6 Settle", c.Settle, newPod("a", running, withHook, inState("PreparingUpdate")), hooks(false),
			said{Act: podcontrol.Patch, Requests: []string{": state=Normal"}},
		},
		{
			"L-11 Settle puts it back into service", c.Settle, newPod("a", running, withHook, inState("PreparingUpdate"), heldBy(heldForUpdate)), hooks(true),
			said{Act: podcontrol.Patch, Requests: []string{"status: state=Normal, Hooks=True []"}},
		},
		{
			"L-6 Settle, whose hook is not back", c.Settle, newPod("a", running, inState("PreparingUpdate")), hooks(false),
			said{Act: podcontrol.Patch, Requests: []string{": state=Updated"}, Why: []reason.Code{lifecycle.HookMissing}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := tc.do(tc.pod, tc.rules, begin)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, say(t, tc.pod, step, begin)); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecreateSaysWhy(t *testing.T) {
	why := reason.List{{Code: inplaceupdate.ImmutableField}}
	step, err := control(t).Recreate(newPod("a", running, withHook), podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: drain(false)}}, why, begin)
	if err != nil || len(step.Why) != 2 || step.Why[0] != why[0] || step.Why[1].Code != lifecycle.HookHolds {
		t.Errorf("Recreate = %+v, %v, want why it is recreated before what it waits for", step, err)
	}
	unmarked := control(t, func(c *podcontrol.Config) { c.DeleteLabel = "" })
	pod := newPod("a", running, withHook)
	step, err = unmarked.Recreate(pod, podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: drain(false)}}, nil, begin)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{": state=PreparingDelete"}, say(t, pod, step, begin).Requests); diff != "" {
		t.Errorf("without a deletion label (-want +got):\n%s", diff)
	}
}

// TestNextOfNewPods: Next opens the gates and sets the labels of a new Pod in a single write, and waits while
// scheduler and kubelet are about to write the Pod's status.
func TestNextOfNewPods(t *testing.T) {
	once := said{Act: podcontrol.Patch, Requests: []string{"status: state=Normal, InPlace=True"}}
	noGate := func(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		after time.Duration // since the Pod was scheduled
		want  said
	}{
		{"L-7 no node yet", newPod("a"), 0, said{}},
		{"C-49 just scheduled", newPod("a", scheduled), 0, said{}},
		{"U-24 its node has said nothing for long", newPod("a", scheduled), time.Hour, said{}},
		{"C-49 being set up", newPod("a", scheduled, reported), 4 * time.Second, said{After: 6 * time.Second}},
		{"C-49 set up for as long as one waits", newPod("a", scheduled, reported), 10 * time.Second, once},
		{"L-7 its containers are ready", newPod("a", scheduled, reported, containersReady), time.Second, once},
		{
			"nobody has said when it was scheduled", newPod("a", reported, func(pod *corev1.Pod) { pod.Spec.NodeName = "static" }), 0, once,
		},
		{
			"L-7 without gates only its node counts", newPod("a", scheduled, noGate), 0,
			said{Act: podcontrol.Patch, Requests: []string{": state=Normal"}},
		},
		{"L-7 without gates and node", newPod("a", noGate), 0, said{Why: []reason.Code{lifecycle.NotScheduled}}},
		{
			"a label that older controllers did not write comes along", newPod("a", scheduled, reported, containersReady, label(hashLabel, "")), 0,
			said{Act: podcontrol.Patch, Requests: []string{"status: state=Normal, hash=1, InPlace=True"}},
		},
		{"a gate that hooks close comes along", newPod("a", scheduled, reported, containersReady, func(pod *corev1.Pod) {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: hookGate})
		}), 0, said{Act: podcontrol.Patch, Requests: []string{"status: state=Normal, Hooks=True, InPlace=True"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := begin.Add(tc.after)
			step, err := control(t).Next(tc.pod, podcontrol.Rules{}, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, say(t, tc.pod, step, now)); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
	unscheduled := control(t, func(c *podcontrol.Config) { c.CountUnscheduled = true })
	pod := newPod("a", noGate)
	step, err := unscheduled.Next(pod, podcontrol.Rules{}, begin)
	if diff := cmp.Diff([]string{": state=Normal"}, say(t, pod, step, begin).Requests); err != nil || diff != "" {
		t.Errorf("L-7 with CountUnscheduled (-want +got), %v:\n%s", err, diff)
	}
}

// TestNextLater: each case calls Next for a Pod that is not new.
func TestNextLater(t *testing.T) {
	c := control(t)
	start := func(rules podcontrol.Rules, since ...func(*corev1.Pod)) *corev1.Pod {
		pod := newPod("a", slices.Concat([]func(*corev1.Pod){running}, since)...)
		step, err := c.Update(pod, rules, updater(t).Plan(template("app:v1"), template("app:v2")), "web-2", begin)
		if err != nil {
			t.Fatal(err)
		}
		return patched(t, pod, step, begin)
	}
	rules := podcontrol.Rules{Policy: podcontrol.InPlaceOnly}
	graceful := podcontrol.Rules{Policy: podcontrol.InPlaceOnly, GracePeriod: 4500 * time.Millisecond}
	runs := func(pod *corev1.Pod) *corev1.Pod {
		pod.Status.ContainerStatuses[0].Image, pod.Status.ContainerStatuses[0].ImageID = "app:v2", "sha256:2"
		pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
		pod.Status.ObservedGeneration = pod.Generation
		return pod
	}
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		rules podcontrol.Rules
		after time.Duration
		want  said
	}{
		{"nothing to do", newPod("a", running), podcontrol.Rules{}, time.Minute, said{}},
		{"U-22 its containers run the old image", start(rules), rules, time.Second, said{Why: []reason.Code{inplaceupdate.ImageNotRunning, lifecycle.UpdateIncomplete}}},
		{
			"L-4 its containers run the new image", runs(start(rules)), rules, time.Second,
			said{Act: podcontrol.Patch, Requests: []string{"status: state=Normal, InPlace=True"}},
		},
		{
			"its grace period runs", start(graceful), graceful, time.Second,
			said{Why: []reason.Code{inplaceupdate.GracePeriodRunning, lifecycle.UpdateIncomplete}, After: 5 * time.Second},
		},
		{"its grace period is over", start(graceful), graceful, 6 * time.Second, said{Act: podcontrol.Patch, Requests: []string{": app:v2"}, Why: []reason.Code{lifecycle.UpdateIncomplete}}},
		{"its owner is the one that deletes it", newPod("a", running, inState("PreparingDelete")), rules, time.Minute, said{}},
		{"L-6 it waits for its owner to settle it", newPod("a", running, inState("PreparingUpdate")), rules, time.Minute, said{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := begin.Add(tc.after)
			step, err := c.Next(tc.pod, tc.rules, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, say(t, tc.pod, step, now)); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
			for _, change := range step.Changes {
				if change.ResourceVersion != tc.pod.ResourceVersion {
					t.Errorf("change %+v does not demand the Pod as it was", change)
				}
			}
		})
	}
}

// patched returns the Pod after a step, as stored by an API server that also changes labels with a patch of
// pods/status.
func patched(t *testing.T, pod *corev1.Pod, step podcontrol.Step, now time.Time) *corev1.Pod {
	t.Helper()
	patches, err := podpatch.Merge(pod, now, step.Changes...)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range patches.Requests {
		pod = apply(t, pod, request.Body)
	}
	return pod
}

// TestNextNeverConflictsWithItself makes random Pods in any lifecycle state, with any hooks and gates, and merges the
// changes of each step. The changes must not contradict each other, because the step would fail again after every
// event.
func TestNextNeverConflictsWithItself(t *testing.T) {
	c := control(t)
	now := begin.Add(time.Minute)
	written := 0
	for seed := range uint64(3_000) {
		r := rand.New(rand.NewPCG(seed, 9))
		pod := anyPod(r)
		rules := podcontrol.Rules{}
		if r.IntN(4) > 0 {
			rules.Hooks = lifecycle.Hooks{PreDelete: anyHook(r), InPlaceUpdate: anyHook(r), PreNormal: anyHook(r)}
		}
		plan := updater(t).Plan(template("app:v1"), template("app:v2"))
		steps := map[string]func() (podcontrol.Step, error){
			"Next":   func() (podcontrol.Step, error) { return c.Next(pod, rules, now) },
			"Delete": func() (podcontrol.Step, error) { return c.Delete(pod, rules, now) },
			"Cancel": func() (podcontrol.Step, error) { return c.Cancel(pod, rules, now) },
			"Settle": func() (podcontrol.Step, error) { return c.Settle(pod, rules, now) },
			"Update": func() (podcontrol.Step, error) {
				rules := rules
				rules.Policy = podcontrol.InPlaceIfPossible
				return c.Update(pod, rules, plan, "web-2", now)
			},
			"Recreate": func() (podcontrol.Step, error) { return c.Recreate(pod, rules, nil, now) },
		}
		for name, decide := range steps {
			step, err := decide()
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			patches, err := podpatch.Merge(pod, now, step.Changes...)
			if err != nil {
				t.Fatalf("seed %d, %s in state %q, hooks %+v, conditions %+v: %v", seed, name, pod.Labels[stateLabel], rules.Hooks, pod.Status.Conditions, err)
			}
			written += len(patches.Requests)
			again, err := decide()
			if err != nil || !reflect.DeepEqual(step, again) {
				t.Fatalf("seed %d, %s decides otherwise the second time, %v:\n%s", seed, name, err, cmp.Diff(step, again))
			}
		}
	}
	if written < 3_000 {
		t.Errorf("only %d requests were drawn", written)
	}
}

func anyPod(r *rand.Rand) *corev1.Pod {
	pod := newPod("a", scheduled, reported)
	pod.Status.Phase = corev1.PodRunning
	label(stateLabel, []string{"", "PreparingNormal", "Normal", "PreparingUpdate", "Updating", "Updated", "PreparingDelete", "x"}[r.IntN(8)])(pod)
	if r.IntN(3) > 0 {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: hookGate})
	}
	for _, kind := range []corev1.PodConditionType{gate, hookGate, corev1.ContainersReady, corev1.PodReady} {
		if r.IntN(3) == 0 {
			continue
		}
		c := corev1.PodCondition{Type: kind, Status: []corev1.ConditionStatus{"", "True", "False"}[r.IntN(3)]}
		if kind == hookGate {
			c.Message = []string{"", "[]", heldForUpdate, heldForDeletion, `[{"userAgent":"o","key":"k"}]`}[r.IntN(5)]
		}
		pod.Status.Conditions = append(pod.Status.Conditions, c)
	}
	if r.IntN(2) == 0 {
		withHook(pod)
	}
	if r.IntN(2) == 0 {
		pod.Finalizers = []string{"x/f"}
	}
	if r.IntN(4) == 0 {
		label(deleteLabel, "true")(pod)
	}
	if r.IntN(4) == 0 {
		label(hashLabel, "")(pod)
	}
	return pod
}

func anyHook(r *rand.Rand) *lifecycle.Hook {
	if r.IntN(3) == 0 {
		return nil
	}
	h := &lifecycle.Hook{MarkNotReady: r.IntN(2) == 0, BeforeOnly: r.IntN(4) == 0}
	if r.IntN(3) > 0 {
		h.Labels = map[string]string{"hook": "on"}
	}
	if h.Labels == nil || r.IntN(3) > 0 {
		h.Finalizers = []string{"x/f"}
	}
	return h
}

// TestRedoLeavesHooks: when an update begins again, Redo does not restore the label of a hook that has already
// released the Pod.
func TestRedoLeavesHooks(t *testing.T) {
	c := control(t)
	rules := podcontrol.Rules{Policy: podcontrol.InPlaceOnly, Hooks: lifecycle.Hooks{InPlaceUpdate: drain(false)}}
	wanted := template("app:v2")
	wanted.Labels = map[string]string{"tier": "front"}
	maps.Copy(wanted.Labels, rules.Hooks.InPlaceUpdate.Labels)
	before := maps.Clone(wanted.Labels)
	pod := newPod("a", running)
	step, err := c.Update(pod, podcontrol.Rules{Policy: podcontrol.InPlaceOnly}, updater(t).Plan(template("app:v1"), template("app:v2")), "web-2", begin)
	if err != nil {
		t.Fatal(err)
	}
	pod = patched(t, pod, step, begin)
	pod.Annotations = nil // somebody removes the state
	if step, err = c.Redo(pod, rules, wanted, begin); err != nil {
		t.Fatal(err)
	}
	pod = patched(t, pod, step, begin)
	for key := range rules.Hooks.InPlaceUpdate.Labels {
		if value, ok := pod.Labels[key]; ok {
			t.Errorf("label %s=%s holds the Pod again", key, value)
		}
	}
	if pod.Labels["tier"] != "front" {
		t.Errorf("labels %v: a label of the template is lacking", pod.Labels)
	}
	if diff := cmp.Diff(before, wanted.Labels); diff != "" {
		t.Errorf("the caller's template (-want +got):\n%s", diff)
	}
}
