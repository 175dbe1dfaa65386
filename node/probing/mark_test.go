package probing_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/podpatch"
)

// patched applies a change as the API server would, and counts the requests.
func patched(t testing.TB, pod *corev1.Pod, change podpatch.Change) (*corev1.Pod, int) {
	t.Helper()
	patches, err := podpatch.Merge(pod, at(100), change)
	if err != nil {
		t.Fatal(err)
	}
	out := pod.DeepCopy()
	for _, p := range patches.Requests {
		var body struct {
			Metadata struct{ Labels, Annotations map[string]*string }
			Status   struct{ Conditions []corev1.PodCondition }
		}
		if err := json.Unmarshal(p.Body, &body); err != nil {
			t.Fatal(err)
		}
		out.Labels, out.Annotations = overlay(out.Labels, body.Metadata.Labels), overlay(out.Annotations, body.Metadata.Annotations)
		for _, c := range body.Status.Conditions {
			i := slices.IndexFunc(out.Status.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
			if i < 0 {
				out.Status.Conditions = append(out.Status.Conditions, c)
				continue
			}
			out.Status.Conditions[i] = c
		}
	}
	return out, len(patches.Requests)
}

func overlay(have map[string]string, with map[string]*string) map[string]string {
	for k, v := range with {
		if have == nil {
			have = map[string]string{}
		}
		if delete(have, k); v != nil {
			have[k] = *v
		}
	}
	return have
}

// marks returns the labels, the conditions and the ledger of a Pod as text, without the values set by onNode.
func marks(pod *corev1.Pod) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(pod.Labels)) {
		if k != "app" {
			out = append(out, k+"="+pod.Labels[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if k != ledger && k != list {
			out = append(out, "@"+k+"="+pod.Annotations[k])
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodInitialized {
			out = append(out, strings.TrimSpace(fmt.Sprint(c.Type, " ", c.Status, " ", c.Message)))
		}
	}
	return strings.Join(out, ", ")
}

func hasLabel(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func hasCondition(t corev1.PodConditionType, status corev1.ConditionStatus, why string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: status, Reason: why})
	}
}

func hasLedger(raw string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[ledger] = raw
	}
}

func annotated(state probing.State, key, value string) func(*probing.Probe) {
	return func(p *probing.Probe) {
		p.Marks = append(p.Marks, probing.Marks{State: state, Annotations: map[string]string{key: value}})
	}
}

func TestMark(t *testing.T) {
	both := marker("m", probe("p", labeled("Succeeded", "role", "master"), labeled("Failed", "role", "slave")))
	one := marker("m", probe("p", labeled("Succeeded", "role", "master")))
	ready := marker("m", probe("p", condition("c")))
	n := marker("n", probe("p", condition("c"), labeled("Succeeded", "role", "other")))
	state := func(name string, s probing.State) probing.ProbeState { return said(name, s, "text", 10) }
	type states = []probing.ProbeState
	for _, c := range []struct {
		name    string
		markers []probing.Marker
		pod     *corev1.Pod
		states  states
		want    string
		why     string
	}{
		{"PP-8 Succeeded", []probing.Marker{ready}, onNode("n1", "u"), states{state("m#p", "Succeeded")}, "c True text", ""},
		{"PP-8 Failed", []probing.Marker{ready}, onNode("n1", "u"), states{state("m#p", "Failed")}, "c False text", ""},
		{"PP-8 Unknown", []probing.Marker{ready}, onNode("n1", "u"), states{state("m#p", "Unknown")}, "c False text", ""},
		{"PP-8 no state", []probing.Marker{ready}, onNode("n1", "u"), nil, "", ""},
		{"PP-10 success", []probing.Marker{both}, onNode("n1", "u", hasLabel("role", "slave")), states{state("m#p", "Succeeded")}, "role=master", ""},
		{"PP-10 failure", []probing.Marker{both}, onNode("n1", "u", hasLabel("role", "master")), states{state("m#p", "Failed")}, "role=slave", ""},
		{"PP-10 failure removes", []probing.Marker{one}, onNode("n1", "u", hasLabel("role", "master")), states{state("m#p", "Failed")}, "", ""},
		{"PP-10 Unknown removes", []probing.Marker{both}, onNode("n1", "u", hasLabel("role", "master")), states{state("m#p", "Unknown")}, "", ""},
		{"PP-10 another probe sets the same key", []probing.Marker{one, marker("n", probe("p", labeled("Failed", "role", "slave")))}, onNode("n1", "u"), states{state("m#p", "Failed"), state("n#p", "Failed")}, "role=slave", ""},
		{"PP-61 a Pod without labels and annotations", []probing.Marker{{Namespace: "ns", Name: "m", Probes: []probing.Probe{probe("p", labeled("Succeeded", "role", "master"), annotated("Succeeded", "note", "x"))}}}, onNode("n1", "u", listed("m"), func(p *corev1.Pod) { p.Labels = nil }), states{state("m#p", "Succeeded")}, "role=master, @note=x", ""},
		{"PP-61 names without #, or with two", []probing.Marker{both}, onNode("n1", "u"), states{state("m", "Failed"), state("", "Failed"), state("m#p#", "Failed"), state("u-app", "Failed")}, "", ""},
		{"PP-62 a Marker that does not select the Pod", []probing.Marker{both}, onNode("n1", "u", func(p *corev1.Pod) { p.Labels = map[string]string{} }), states{state("m#p", "Succeeded")}, "", ""},
		{"an unknown state", []probing.Marker{both}, onNode("n1", "u"), states{state("m#p", "Great")}, "", ""},
		{"PP-9 the first Marker wins, whatever the order of states", []probing.Marker{ready, n}, onNode("n1", "u"), states{state("n#p", "Failed"), state("m#p", "Succeeded")}, "c True text", "MarkTaken"},
		{"PP-9 a label: the first Marker wins", []probing.Marker{both, n}, onNode("n1", "u"), states{state("n#p", "Succeeded"), state("m#p", "Succeeded")}, "role=master, c True text", "MarkTaken"},
		{"PP-9 a probe without state keeps the condition", []probing.Marker{ready, n}, onNode("n1", "u", hasCondition("c", "True", probing.ConditionSucceeded), hasLedger(`{"m#p":{"condition":"c"}}`)), states{state("n#p", "Failed")}, "c True", "MarkTaken"},
		{"PP-62 a silent Node: the marks stay", []probing.Marker{both}, onNode("n1", "u", hasLabel("role", "master"), hasLedger(`{"m#p":{"labels":{"role":"master"}}}`)), nil, "role=master", ""},
		{"PP-12 the Marker has gone", nil, onNode("n1", "u", hasLabel("role", "master"), hasCondition("c", "True", probing.ConditionSucceeded), hasLedger(`{"m#p":{"labels":{"role":"master"},"condition":"c"}}`)), nil, "c Unknown the probe of the condition has gone", ""},
		{"PP-12 the label was changed by others", nil, onNode("n1", "u", hasLabel("role", "boss"), hasLedger(`{"m#p":{"labels":{"role":"master"}}}`)), nil, "role=boss", ""},
		{"PP-12 a probe has gone, the other stays", []probing.Marker{marker("m", probe("q", labeled("Succeeded", "role", "master")))}, onNode("n1", "u", hasLabel("role", "master"), hasLabel("old", "1"), hasLedger(`{"m#p":{"labels":{"old":"1","role":"master"}}}`)), states{state("m#q", "Succeeded")}, "role=master", ""},
		{"PP-12 the Pod does not match any more", []probing.Marker{both}, onNode("n1", "u", func(p *corev1.Pod) { p.Labels = map[string]string{"role": "slave"} }, hasLedger(`{"m#p":{"labels":{"role":"slave"}}}`)), nil, "", ""},
		{"PP-12 the probe can no longer be run", []probing.Marker{marker("m", probe("p", condition("c"), func(p *probing.Probe) {
			p.Probe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("no such port")}}
		}))}, onNode("n1", "u", hasCondition("c", "True", probing.ConditionSucceeded), hasLedger(`{"m#p":{"condition":"c"}}`)), nil, "c Unknown the probe of the condition has gone", ""},
		{"a ledger cannot reach conditions of others", nil, onNode("n1", "u", hasCondition("Ready", "True", ""), hasCondition("gate", "True", "Written"), hasLedger(`{"m#p":{"condition":"gate"},"m#q":{"condition":"Ready"}}`)), nil, "Ready True, gate True", ""},
		{"a damaged ledger", []probing.Marker{both}, onNode("n1", "u", hasLedger(`{"m#p":7}`)), states{state("m#p", "Succeeded")}, "role=master", "UnreadableLedger"},
		{"PP-7 the Pod is being deleted", []probing.Marker{both}, onNode("n1", "u", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }), states{state("m#p", "Succeeded")}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := book(t, c.markers...)
			before := c.pod.DeepCopy()
			change, why := b.Mark(c.pod, c.states)
			if diff := cmp.Diff(before, c.pod); diff != "" {
				t.Error("the Pod was modified:\n" + diff)
			}
			after, requests := patched(t, c.pod, change)
			if diff := cmp.Diff([]string{c.want, c.why}, []string{marks(after), codes(why)}); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
			if requests > 1 {
				t.Errorf("PP-11 %d requests", requests)
			}
			again, _ := b.Mark(after, c.states)
			if _, requests := patched(t, after, again); requests > 0 {
				t.Errorf("PP 7.4 the second pass still writes: %+v", again)
			}
			gone, _ := book(t).Mark(after, nil)
			if last, _ := patched(t, after, gone); last.Annotations[ledger] != "" {
				t.Errorf("a ledger is left: %s", last.Annotations[ledger])
			}
		})
	}
}

// TestMarkAndBack: after the deletion of the Marker, Mark removes all its labels and annotations from the Pod; only
// the condition remains, with status Unknown.
func TestMarkAndBack(t *testing.T) {
	b := book(t, marker("m", probe("p", condition("c"), labeled("Succeeded", "role", "master"), annotated("Succeeded", "note", "x"))))
	pod := onNode("n1", "u", hasLabel("mine", "1"))
	change, _ := b.Mark(pod, []probing.ProbeState{said("m#p", "Succeeded", "fine", 10)})
	marked, _ := patched(t, pod, change)
	if want := "mine=1, role=master, @note=x, c True fine"; marks(marked) != want {
		t.Fatalf("got %s, want %s", marks(marked), want)
	}
	if !b.Holds("ns", "m", nil, []*corev1.Pod{pod, marked}) || b.Holds("ns", "xm", nil, []*corev1.Pod{marked}) || b.Holds("other", "m", nil, []*corev1.Pod{marked}) {
		t.Error("PP-6 the Pod is held by the Marker m of its namespace alone")
	}
	if e := []probing.Entry{entry("v", "m#p")}; !b.Holds("ns", "m", e, nil) || b.Holds("ns", "xm", e, nil) {
		t.Error("PP-6 the Node is held by the Marker m alone")
	}
	if b.Holds("ns", "m", []probing.Entry{entry("v", "xm#p", "m")}, nil) {
		t.Error("PP 7.4 a probe of the Marker xm, and a probe of no Marker, hold nothing for m")
	}
	marked.Status.Conditions[0].Status = corev1.ConditionFalse
	if !b.Holds("ns", "m", nil, []*corev1.Pod{marked}) {
		t.Error("PP-6 a Pod that is initialized again keeps its marks, and is held")
	}
	change, _ = book(t).Mark(marked, nil)
	back, _ := patched(t, marked, change)
	if want := "mine=1, c Unknown the probe of the condition has gone"; marks(back) != want {
		t.Errorf("got %s, want %s", marks(back), want)
	}
	if b.Holds("ns", "m", nil, []*corev1.Pod{back}) {
		t.Error("PP-6 nothing is held any more")
	}
}

// TestExternal: the agent of a virtual Node writes the conditions, and the labels follow each change of a condition.
func TestExternal(t *testing.T) {
	b := book(t, marker("m", probe("p", condition("c"), labeled("Succeeded", "role", "master"), labeled("Failed", "role", "slave"), labeled("Failed", "bad", "1"))))
	pod := onNode("virtual", "u")
	for _, c := range []struct {
		status corev1.ConditionStatus
		want   string
	}{
		{"", ""}, {"True", "role=master, c True"}, {"False", "bad=1, role=slave, c False"}, {"Unknown", "c Unknown"}, {"True", "role=master, c True"},
	} {
		pod.Status.Conditions = pod.Status.Conditions[:1]
		if c.status != "" {
			hasCondition("c", c.status, "Agent")(pod)
		}
		change, why := b.WithoutConditions().Mark(pod, b.External(pod))
		pod, _ = patched(t, pod, change)
		if marks(pod) != c.want || len(why) > 0 {
			t.Errorf("status %q: got %s, want %s; %v", c.status, marks(pod), c.want, why)
		}
	}
}
