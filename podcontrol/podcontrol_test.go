package podcontrol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podreadiness"
)

// These are the names that the tests' controller uses on Pods.
const (
	revisionLabel = "example.com/revision"
	hashLabel     = "example.com/hash"
	deleteLabel   = "example.com/delete"
	stateLabel    = "example.com/state"
	since         = "example.com/since"
	updateState   = "example.com/update"
	graceKey      = "example.com/grace"
	gate          = corev1.PodConditionType("example.com/InPlace")
	hookGate      = corev1.PodConditionType("example.com/Hooks")
)

// begin is the time at which the tests' Pods were bound to a node.
var begin = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func updater(t testing.TB) *inplaceupdate.Updater {
	t.Helper()
	u, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: updateState, GraceAnnotation: graceKey, Gate: gate,
		Reserved: []string{revisionLabel, hashLabel, deleteLabel, stateLabel, since},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// config returns a configuration with all labels, gates and hooks.
func config(t testing.TB) podcontrol.Config {
	t.Helper()
	machine, err := lifecycle.New(lifecycle.Keys{State: stateLabel, Timestamp: since})
	if err != nil {
		t.Fatal(err)
	}
	return podcontrol.Config{
		InPlace: updater(t), RevisionLabel: revisionLabel, FullRevisions: true, HashLabel: hashLabel, DeleteLabel: deleteLabel, Lifecycle: machine,
		HookGate: hookGate, Holder: func(kind lifecycle.HookName) podreadiness.Holder {
			return podreadiness.Holder{UserAgent: "hooks", Key: string(kind)}
		},
	}
}

func control(t testing.TB, change ...func(*podcontrol.Config)) *podcontrol.Control {
	t.Helper()
	cfg := config(t)
	for _, f := range change {
		f(&cfg)
	}
	c, err := podcontrol.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newPod returns a Pod of revision web-1 as created by its controller, with the given changes.
func newPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
			Labels: map[string]string{revisionLabel: "web-1", hashLabel: "1", stateLabel: "PreparingNormal"},
		},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "app", Image: "app:v1"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func scheduled(pod *corev1.Pod) {
	pod.Spec.NodeName = "node-1"
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin),
	})
}

func reported(pod *corev1.Pod) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: "app:v1", ImageID: "sha256:1"}}
}

func containersReady(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
}

// running puts a Pod into service.
func running(pod *corev1.Pod) {
	for _, f := range []func(*corev1.Pod){scheduled, reported, containersReady, inState("Normal"), condition(gate, corev1.ConditionTrue), condition(corev1.PodReady, corev1.ConditionTrue)} {
		f(pod)
	}
	pod.Status.Phase = corev1.PodRunning
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(begin)})
	}
}

func inState(state string) func(*corev1.Pod) { return label(stateLabel, state) }

func label(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Labels[key] = value; value == "" {
			delete(pod.Labels, key)
		}
	}
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
}

// heldBy closes the Pod's hook gate, with the given holders in the message of the gate's condition.
func heldBy(message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: hookGate})
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: hookGate, Status: corev1.ConditionFalse, Message: message})
	}
}

// template returns the template of revision web-1 or web-2, depending on the image.
func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}}
}

func Example() {
	inPlace, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: "example.com/update", GraceAnnotation: "example.com/grace", Gate: "example.com/InPlace",
		Reserved: []string{"example.com/revision"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	control, err := podcontrol.New(podcontrol.Config{InPlace: inPlace, RevisionLabel: "example.com/revision"})
	if err != nil {
		fmt.Println(err)
		return
	}
	now, v1, v2 := time.Now(), template("app:v1"), template("app:v2")
	v2.Spec.HostNetwork = true // a change that is impossible in place, unlike the change of the image
	pod := control.NewPod(v1, "default", metav1.OwnerReference{Name: "web", UID: "u", Controller: ptr.To(true)}, podcontrol.Rules{}, "web-1", now)

	for _, to := range []*corev1.PodTemplateSpec{template("app:v2"), v2} {
		for _, policy := range []podcontrol.Policy{podcontrol.InPlaceIfPossible, podcontrol.InPlaceOnly} {
			step, err := control.Update(pod, podcontrol.Rules{Policy: policy}, inPlace.Plan(v1, to), "web-2", now)
			fmt.Println(policy, step.Act, step.Why, err)
		}
	}
	// Output:
	// InPlaceIfPossible Start  <nil>
	// InPlaceOnly Start  <nil>
	// InPlaceIfPossible Delete ImmutableField: spec.hostNetwork: true: cannot change on a live Pod; recreate the Pod <nil>
	// InPlaceOnly Blocked ImmutableField: spec.hostNetwork: true: cannot change on a live Pod; recreate the Pod <nil>
}

// gateFree returns an Updater without a readiness gate.
func gateFree(t *testing.T) *inplaceupdate.Updater {
	t.Helper()
	u, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: updateState, GraceAnnotation: graceKey, Reserved: []string{revisionLabel, hashLabel, deleteLabel, stateLabel, since},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*podcontrol.Config)
		want   string // expected part of the error; empty for no error
	}{
		{"everything", func(*podcontrol.Config) {}, ""},
		{"what is required", func(c *podcontrol.Config) { *c = podcontrol.Config{InPlace: c.InPlace, RevisionLabel: c.RevisionLabel} }, ""},
		{"no updater", func(c *podcontrol.Config) { c.InPlace = nil }, "Config.InPlace"},
		{"no revision label", func(c *podcontrol.Config) { c.RevisionLabel = "" }, "Config.RevisionLabel"},
		{"a gate without holders", func(c *podcontrol.Config) { c.Holder = nil }, "Config.Holder"},
		{"holders without a gate", func(c *podcontrol.Config) { c.HookGate = "" }, "Config.HookGate"},
		{"no gate, and Pods need it", func(c *podcontrol.Config) { c.NeedsGate, c.InPlace = true, gateFree(t) }, "Config.NeedsGate"},
		{"no gate", func(c *podcontrol.Config) { c.InPlace = gateFree(t) }, ""},
		{"one gate for both", func(c *podcontrol.Config) { c.HookGate = gate }, string(gate)},
		{"a revision label that a template may change", func(c *podcontrol.Config) { c.RevisionLabel = "free" }, `"free"`},
		{"a hash label that a template may change", func(c *podcontrol.Config) { c.HashLabel = "free" }, `"free"`},
		{"a deletion label that a template may change", func(c *podcontrol.Config) { c.DeleteLabel = "free" }, `"free"`},
		{"one label for revision and hash", func(c *podcontrol.Config) { c.HashLabel = revisionLabel }, "Config.HashLabel"},
		{"every Pod would be marked", func(c *podcontrol.Config) { c.DeleteLabel = revisionLabel }, "Config.DeleteLabel"},
		{"one label for hash and deletion", func(c *podcontrol.Config) { c.DeleteLabel = hashLabel }, "Config.DeleteLabel"},
		{"the state would take the revision's place", func(c *podcontrol.Config) { c.RevisionLabel = stateLabel }, "Config.RevisionLabel"},
		{"a holder without a name", func(c *podcontrol.Config) {
			c.Holder = func(lifecycle.HookName) podreadiness.Holder { return podreadiness.Holder{} }
		}, "Config.Holder"},
		{"one holder for both", func(c *podcontrol.Config) {
			c.Holder = func(lifecycle.HookName) podreadiness.Holder { return podreadiness.Holder{UserAgent: "hooks"} }
		}, "Config.Holder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := config(t)
			tc.change(&cfg)
			c, err := podcontrol.New(cfg)
			if (err == nil) != (tc.want == "") || (c == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New = %v, %v, want an error that names %q", c, err, tc.want)
			}
		})
	}
}

func TestRevisionLabels(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*podcontrol.Config)
		want   map[string]string
	}{
		{"both", func(*podcontrol.Config) {}, map[string]string{revisionLabel: "web-1-6d5f", hashLabel: "6d5f"}},
		{"no hash label", func(c *podcontrol.Config) { c.HashLabel = "" }, map[string]string{revisionLabel: "web-1-6d5f"}},
		{"short revisions", func(c *podcontrol.Config) { c.FullRevisions = false }, map[string]string{revisionLabel: "6d5f", hashLabel: "6d5f"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, control(t, tc.change).RevisionLabels("web-1-6d5f")); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNewPod: a template cannot set the controller's keys.
func TestNewPod(t *testing.T) {
	from := template("app:v1")
	from.Labels = map[string]string{"app": "web", revisionLabel: "mine", deleteLabel: "true", stateLabel: "Normal"}
	from.Annotations = map[string]string{updateState: "{}", "note": "mine"}
	untouched := from.DeepCopy()
	owner := metav1.OwnerReference{Kind: "Web", Name: "web", UID: "u", Controller: ptr.To(true)}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", OwnerReferences: []metav1.OwnerReference{owner},
			Labels:      map[string]string{"app": "web", revisionLabel: "web-1", hashLabel: "1", stateLabel: "PreparingNormal"},
			Annotations: map[string]string{"note": "mine", since: begin.Format(time.RFC3339)},
		},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "app", Image: "app:v1"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}, {ConditionType: hookGate}},
		},
	}
	if diff := cmp.Diff(want, control(t).NewPod(from, "default", owner, podcontrol.Rules{}, "web-1", begin)); diff != "" {
		t.Errorf("Pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(untouched, from); diff != "" {
		t.Errorf("the template was modified:\n%s", diff)
	}
	bare, err := podcontrol.New(podcontrol.Config{InPlace: updater(t), RevisionLabel: revisionLabel, FullRevisions: true})
	if err != nil {
		t.Fatal(err)
	}
	pod := bare.NewPod(&corev1.PodTemplateSpec{}, "default", owner, podcontrol.Rules{}, "web-1", begin)
	if diff := cmp.Diff(map[string]string{revisionLabel: "web-1"}, pod.Labels); diff != "" || len(pod.Annotations) > 0 {
		t.Errorf("labels of an empty template without lifecycle (-want +got), annotations %v:\n%s", pod.Annotations, diff)
	}
}

// TestNewPodHasItsHooks: a new Pod has the labels and finalizers of its hooks, even if the label is reserved, and
// even if Pods have no lifecycle state.
func TestNewPodHasItsHooks(t *testing.T) {
	rules := podcontrol.Rules{Hooks: lifecycle.Hooks{PreDelete: &lifecycle.Hook{Labels: map[string]string{hashLabel: "hold"}, Finalizers: []string{"example.com/drain"}}}}
	for _, only := range []bool{false, true} {
		c := control(t, func(c *podcontrol.Config) { c.OnlyPreDelete, c.HashLabel = only, "" })
		pod := c.NewPod(template("app:v1"), "default", metav1.OwnerReference{}, rules, "web-1", begin)
		if pod.Labels[hashLabel] != "hold" || !slices.Contains(pod.Finalizers, "example.com/drain") {
			t.Errorf("OnlyPreDelete %v: labels %v, finalizers %v", only, pod.Labels, pod.Finalizers)
		}
		if state := c.StateOf(pod); (state == "") != only {
			t.Errorf("OnlyPreDelete %v: state %q", only, state)
		}
		pod.Spec.NodeName = "n1"
		if step, err := c.Delete(pod, rules, begin); err != nil || step.Act != podcontrol.Patch {
			t.Errorf("OnlyPreDelete %v: Delete = %+v, %v, want a Pod that waits", only, step, err)
		}
	}
}

// TestNewPodBegins: each case has the first lifecycle state and the gates of a new Pod.
func TestNewPodBegins(t *testing.T) {
	hook := podcontrol.Rules{Hooks: lifecycle.Hooks{PreNormal: &lifecycle.Hook{Labels: map[string]string{"registered": "yes"}}}}
	inPlace := podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible}
	registered, listing := template("app:v1"), template("app:v1")
	registered.Labels = map[string]string{"registered": "yes"}
	listing.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	type facts struct {
		State string
		Gates []corev1.PodConditionType
	}
	for _, tc := range []struct {
		name             string
		counts, optional bool
		template         *corev1.PodTemplateSpec
		rules            podcontrol.Rules
		want             facts
	}{
		{name: "L-8 prepared", template: template("app:v1"), want: facts{"PreparingNormal", []corev1.PodConditionType{gate, hookGate}}},
		{name: "L-8 at once", counts: true, template: template("app:v1"), want: facts{"Normal", []corev1.PodConditionType{gate, hookGate}}},
		{name: "L-8 a hook is waited for", counts: true, template: template("app:v1"), rules: hook, want: facts{"PreparingNormal", []corev1.PodConditionType{gate, hookGate}}},
		{name: "L-8 a hook that the template satisfies", counts: true, template: registered, rules: hook, want: facts{"Normal", []corev1.PodConditionType{gate, hookGate}}},
		{name: "U-29 nothing is updated in place", optional: true, template: template("app:v1"), want: facts{"PreparingNormal", []corev1.PodConditionType{hookGate}}},
		{name: "U-29 the template has the gate", optional: true, template: listing, want: facts{"PreparingNormal", []corev1.PodConditionType{gate, hookGate}}},
		{name: "U-29 updated in place", optional: true, template: template("app:v1"), rules: inPlace, want: facts{"PreparingNormal", []corev1.PodConditionType{gate, hookGate}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := control(t, func(c *podcontrol.Config) { c.CountUnscheduled, c.GateWhereUpdated = tc.counts, tc.optional })
			pod := c.NewPod(tc.template, "default", metav1.OwnerReference{}, tc.rules, "web-1", begin)
			got := facts{State: pod.Labels[stateLabel]}
			for _, g := range pod.Spec.ReadinessGates {
				got.Gates = append(got.Gates, g.ConditionType)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	garbage := annotated(updateState, "{")
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want podcontrol.Facts
	}{
		{"new", newPod("a"), podcontrol.Facts{Active: true, Gated: true, State: "PreparingNormal", Revision: "web-1"}},
		{"in service", newPod("a", running), podcontrol.Facts{Active: true, Gated: true, Ready: true, State: "Normal", Revision: "web-1"}},
		{
			"C-49 ready, and its update is under way", newPod("a", running, func(pod *corev1.Pod) { pod.Status.Conditions[2].Status = corev1.ConditionFalse }),
			podcontrol.Facts{Active: true, Gated: true, State: "Normal", Revision: "web-1"},
		},
		{"to be deleted", newPod("a", label(deleteLabel, "no")), podcontrol.Facts{Active: true, Gated: true, Marked: true, State: "PreparingNormal", Revision: "web-1"}},
		{"ended", newPod("a", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }), podcontrol.Facts{Gated: true, State: "PreparingNormal", Revision: "web-1"}},
		{
			"terminating", newPod("a", func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(begin)) }),
			podcontrol.Facts{Gated: true, State: "PreparingNormal", Revision: "web-1"},
		},
		{"nobody's", &corev1.Pod{}, podcontrol.Facts{Active: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, control(t).Read(tc.pod)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
	for name, spoil := range map[string]func(*corev1.Pod){"its state": garbage, "its gate": heldBy("garbage")} {
		if facts := control(t).Read(newPod("a", running, spoil)); facts.Unreadable == nil {
			t.Errorf("%s cannot be read, and nobody says so", name)
		}
	}
	if facts := control(t).Read(newPod("a", garbage, heldBy("garbage"))); !errors.Is(facts.Unreadable, inplaceupdate.UnreadableState) || !errors.Is(facts.Unreadable, podreadiness.UnreadableMessage) {
		t.Errorf("both cannot be read, and it says %v", facts.Unreadable)
	}
	unnamed := control(t, func(c *podcontrol.Config) { c.DeleteLabel = "" })
	if unnamed.IsMarked(newPod("a", label("", "x"))) {
		t.Error("without a deletion label a Pod is marked")
	}
}

// apply returns the Pod after a strategic merge patch, as stored by an API server.
func apply(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestIsUpdating: IsUpdating uses the lifecycle state or, if the Pod has no state, the gate.
func TestIsUpdating(t *testing.T) {
	with, without := control(t), control(t, func(c *podcontrol.Config) { c.Lifecycle, c.HookGate, c.Holder = lifecycle.Machine{}, "", nil })
	pod := func(state lifecycle.State, conditions ...corev1.PodCondition) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{stateLabel: string(state)}}, Status: corev1.PodStatus{Conditions: conditions},
		}
	}
	open, closed := corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue}, corev1.PodCondition{Type: gate, Status: corev1.ConditionFalse}
	for name, test := range map[string]struct {
		control *podcontrol.Control
		pod     *corev1.Pod
		want    bool
	}{
		"its state says so":           {with, pod(lifecycle.Updating, open), true},
		"its state says otherwise":    {with, pod(lifecycle.Normal, closed), false},
		"no state yet, gate open":     {with, pod("", open), false},
		"no lifecycle, gate open":     {without, pod(lifecycle.Updating, open), false},
		"no lifecycle, gate closed":   {without, pod("", closed), true},
		"no lifecycle, gate not used": {without, pod(""), false},
	} {
		if got := test.control.IsUpdating(test.pod); got != test.want {
			t.Errorf("%s: IsUpdating = %t", name, got)
		}
	}
}
