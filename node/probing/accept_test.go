package probing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/node/probing"
)

// onNode is an initialized Pod of the namespace ns on a Node, with the container app.
func onNode(node, name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "db"}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}},
	}
	for _, e := range edit {
		e(pod)
	}
	return pod
}

// words returns accepted states, and the codes of refusals, as text.
func words(states map[types.UID][]probing.ProbeState) string {
	var out []string
	for _, uid := range []types.UID{"u", "v", "w", "x"} {
		for _, s := range states[uid] {
			out = append(out, fmt.Sprint(uid, " ", s.Name, " ", s.State))
		}
	}
	return strings.Join(out, ", ")
}

func TestAccept(t *testing.T) {
	entries := []probing.Entry{entry("u", "m#p", "m#q", "u-app"), entry("v", "m#p"), entry("w", "m#p")}
	pods := []*corev1.Pod{onNode("n1", "u"), onNode("n2", "v"), onNode("n1", "x")} // Pod w does not exist, and Pod v is on another Node
	yes := func(name string) probing.ProbeState { return said(name, "Succeeded", "", 10) }
	renamed := report("u", yes("m#p"))
	renamed.Name = "other"
	for _, c := range []struct {
		name, want, refused string
		reports             []probing.Report
	}{
		{"a pair of the spec", "u m#p Succeeded, u m#q Succeeded", "", []probing.Report{report("u", yes("m#p"), yes("m#q"))}},
		{"PP-62 a Marker that does not select the Pod", "", "StateNotAsked", []probing.Report{report("u", yes("other#p"))}},
		{"PP-62 a Pod of another Node", "", "StateNotAsked", []probing.Report{report("v", yes("m#p"))}},
		{"PP-62 a Pod that is not in the spec", "", "StateNotAsked", []probing.Report{report("x", yes("m#p"))}},
		{"PP-7 a Pod that has gone", "", "StateNotAsked", []probing.Report{report("w", yes("m#p"))}},
		{"PP-62 the UID under another name", "", "StateNotAsked", []probing.Report{renamed}},
		{"PP-61 a name without #", "", "StateNotAsked", []probing.Report{report("u", yes("ready"))}},
		{"EL-60 a probe of no Marker that stands in the spec", "u u-app Failed", "", []probing.Report{report("u", said("u-app", "Failed", "", 10))}},
		{"an unknown state", "", "InvalidState", []probing.Report{report("u", said("m#p", "Great", "", 10))}},
		{"two states: the first counts", "u m#p Succeeded", "InvalidState", []probing.Report{report("u", yes("m#p")), report("u", said("m#p", "Failed", "", 10))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			states, refused := probing.Accept("n1", entries, c.reports, pods)
			var codes []string
			for _, r := range refused {
				codes = append(codes, string(r.Code))
			}
			if diff := cmp.Diff([]string{c.want, c.refused}, []string{words(states), strings.Join(codes, " ")}); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
		})
	}
	if states, _ := probing.Accept("", entries, []probing.Report{report("u", yes("m#p"))}, []*corev1.Pod{onNode("", "u")}); len(states) > 0 {
		t.Error("no Node may report about Pods without Node")
	}
}

// TestFlood: Accept limits the number of reasons and the length of messages, whatever a Node reports.
func TestFlood(t *testing.T) {
	var flood []probing.ProbeState
	for i := range 5000 {
		flood = append(flood, said(fmt.Sprint(strings.Repeat("x", 10_000), i), "Succeeded", "", 1))
	}
	flood = append(flood, said("m#p", "Failed", strings.Repeat("\xff\xfe ", 5000), 1))
	states, refused := probing.Accept("n1", []probing.Entry{entry("u", "m#p")}, []probing.Report{report("u", flood...)}, []*corev1.Pod{onNode("n1", "u")})
	if len(refused) != 21 || len(refused.Error()) > 10_000 || !strings.Contains(refused.Error(), "4980 more") {
		t.Errorf("%d reasons of %d bytes", len(refused), len(refused.Error()))
	}
	if s := states["u"]; len(s) != 1 || len(s[0].Message) > 1024 || !strings.HasPrefix(s[0].Message, "\uFFFD ") {
		t.Errorf("states %.200v", s)
	}
}
