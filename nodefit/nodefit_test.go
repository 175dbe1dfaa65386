package nodefit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/reason"
)

func newNode(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

// requires returns a spec whose required node affinity has the given terms.
func requires(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
	return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}
}

func requirement(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func expressions(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: all}
}

func fields(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: all}
}

func tolerates(all ...corev1.Toleration) corev1.PodSpec { return corev1.PodSpec{Tolerations: all} }

const terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

func TestFits(t *testing.T) {
	const (
		noExecute  = corev1.TaintEffectNoExecute
		noSchedule = corev1.TaintEffectNoSchedule
	)
	cordoned := newNode("n1", nil)
	cordoned.Spec.Unschedulable = true
	cordonedTwice := newNode("n1", nil, taint(corev1.TaintNodeUnschedulable, "", noSchedule))
	cordonedTwice.Spec.Unschedulable = true
	type why struct {
		Code reason.Code
		Path string
	}
	// These are the expected verdicts: a Pod may run, may only stay, or must leave.
	const (
		run = iota
		stay
		leave
	)
	untolerated := []why{{nodefit.UntoleratedTaint, "spec.tolerations"}}
	tests := []struct {
		name string
		spec corev1.PodSpec
		node *corev1.Node
		want int
		why  []why
	}{
		{"D-1 no requirement", corev1.PodSpec{}, newNode("n1", nil), run, nil},
		{"D-1 nodeName, this one", corev1.PodSpec{NodeName: "n1"}, newNode("n1", nil), run, nil},
		{"D-1 nodeName, another", corev1.PodSpec{NodeName: "n2"}, newNode("n1", nil), leave, []why{{nodefit.OtherNode, "spec.nodeName"}}},
		{
			"D-1 nodeSelector, the hostname",
			corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: "h1"}},
			newNode("n1", map[string]string{corev1.LabelHostname: "h1"}), run, nil,
		},
		{
			"D-1 nodeSelector, the hostname of another, which is no name of a Node",
			corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: "n1"}},
			newNode("n1", map[string]string{corev1.LabelHostname: "h1"}), leave,
			[]why{{nodefit.NodeSelectorUnmet, "spec.nodeSelector[kubernetes.io/hostname]"}},
		},
		{
			"D-1 nodeSelector, every label that is missing or wrong",
			corev1.PodSpec{NodeSelector: map[string]string{"c": "1", "a": "", "b": "1"}},
			newNode("n1", map[string]string{"b": "2", "c": "1"}), leave,
			[]why{{nodefit.NodeSelectorUnmet, "spec.nodeSelector[a]"}, {nodefit.NodeSelectorUnmet, "spec.nodeSelector[b]"}},
		},
		{
			"D-1 affinity, one of the terms", requires(
				expressions(requirement("a", "Exists")), expressions(requirement("b", "In", "1", "2"), requirement("c", "DoesNotExist")),
			), newNode("n1", map[string]string{"b": "2"}), run, nil,
		},
		{
			"D-1 affinity, none of the terms", requires(
				expressions(requirement("a", "Exists")), expressions(requirement("b", "In", "1", "2"), requirement("c", "DoesNotExist")),
			), newNode("n1", map[string]string{"b": "2", "c": ""}), leave, []why{
				{nodefit.NodeAffinityUnmet, terms + "[0].matchExpressions[0]"}, {nodefit.NodeAffinityUnmet, terms + "[1].matchExpressions[1]"},
			},
		},
		{"D-1 affinity, NotIn is met without the label", requires(expressions(requirement("a", "NotIn", "1"))), newNode("n1", nil), run, nil},
		{"D-1 affinity, Gt", requires(expressions(requirement("a", "Gt", "5"))), newNode("n1", map[string]string{"a": "6"}), run, nil},
		{
			"D-1 affinity, Gt without the label", requires(expressions(requirement("a", "Gt", "5"))), newNode("n1", nil), leave,
			[]why{{nodefit.NodeAffinityUnmet, terms + "[0].matchExpressions[0]"}},
		},
		{
			"D-1 affinity, Lt of what is no number", requires(expressions(requirement("a", "Lt", "5"))), newNode("n1", map[string]string{"a": "x"}), leave,
			[]why{{nodefit.NodeAffinityUnmet, terms + "[0].matchExpressions[0]"}},
		},
		{"D-1 affinity, the name", requires(fields(requirement("metadata.name", "In", "n1"))), newNode("n1", nil), run, nil},
		{
			"D-1 affinity, the name of another", requires(fields(requirement("metadata.name", "In", "n2"))), newNode("n1", nil), leave,
			[]why{{nodefit.NodeAffinityUnmet, terms + "[0].matchFields[0]"}},
		},
		{
			"D-1 affinity, not the name", requires(fields(requirement("metadata.name", "NotIn", "n1"))), newNode("n1", nil), leave,
			[]why{{nodefit.NodeAffinityUnmet, terms + "[0].matchFields[0]"}},
		},
		{
			"D-1 affinity, a Node without a name is not asked for it",
			requires(fields(requirement("metadata.name", "In", "n2"))), newNode("", nil), run, nil,
		},
		{"D-1 affinity, without terms", requires(), newNode("n1", nil), leave, []why{{nodefit.NodeAffinityUnmet, terms}}},
		{"D-1 affinity, an empty term", requires(corev1.NodeSelectorTerm{}), newNode("n1", nil), leave, []why{{nodefit.NodeAffinityUnmet, terms}}},
		{
			"D-1 affinity, a term that cannot be compiled beside one that fits",
			requires(expressions(requirement("a", "Gt", "x")), expressions(requirement("b", "Exists"))), newNode("n1", map[string]string{"b": ""}), run, nil,
		},
		{
			"D-1 affinity, a term that cannot be compiled",
			requires(expressions(requirement("a", "Exists"), requirement("b", "Is", "x"))), newNode("n1", map[string]string{"a": ""}), leave,
			[]why{{nodefit.InvalidNodeTerm, terms + "[0].matchExpressions[1]"}},
		},
		{"D-1 NoSchedule", corev1.PodSpec{}, newNode("n1", nil, taint("k", "v", noSchedule)), stay, untolerated},
		{"D-1 NoExecute", corev1.PodSpec{}, newNode("n1", nil, taint("k", "v", noExecute)), leave, untolerated},
		{"D-1 PreferNoSchedule", corev1.PodSpec{}, newNode("n1", nil, taint("k", "v", corev1.TaintEffectPreferNoSchedule)), run, nil},
		{
			"D-1 NoSchedule and NoExecute",
			corev1.PodSpec{},
			newNode("n1", nil, taint("k", "v", noSchedule), taint("l", "", noExecute)), leave,
			[]why{{nodefit.UntoleratedTaint, "spec.tolerations"}, {nodefit.UntoleratedTaint, "spec.tolerations"}},
		},
		{
			"D-1 NoExecute is tolerated, NoSchedule is not", tolerates(corev1.Toleration{Key: "k", Operator: "Exists", Effect: noExecute}),
			newNode("n1", nil, taint("k", "", noSchedule), taint("k", "", noExecute)), stay, untolerated,
		},
		{
			"D-1 NoSchedule where the labels do not fit either",
			corev1.PodSpec{NodeSelector: map[string]string{"a": "1"}},
			newNode("n1", nil, taint("k", "", noSchedule)), leave,
			[]why{{nodefit.NodeSelectorUnmet, "spec.nodeSelector[a]"}, untolerated[0]},
		},
		{"D-1 tolerates everything", tolerates(corev1.Toleration{Operator: "Exists"}), newNode("n1", nil, taint("k", "v", noExecute)), run, nil},
		{"D-1 tolerates the value", tolerates(corev1.Toleration{Key: "k", Value: "v"}), newNode("n1", nil, taint("k", "v", noExecute)), run, nil},
		{
			"D-1 tolerates another value",
			tolerates(corev1.Toleration{Key: "k", Operator: "Equal", Value: "w"}), newNode("n1", nil, taint("k", "v", noExecute)), leave, untolerated,
		},
		{
			"D-1 tolerates less",
			tolerates(corev1.Toleration{Key: "k", Operator: "Lt", Value: "5"}), newNode("n1", nil, taint("k", "4", noExecute)), run, nil,
		},
		{
			"D-1 tolerates less, not the same",
			tolerates(corev1.Toleration{Key: "k", Operator: "Lt", Value: "5"}), newNode("n1", nil, taint("k", "5", noExecute)), leave, untolerated,
		},
		{
			"D-1 tolerates more",
			tolerates(corev1.Toleration{Key: "k", Operator: "Gt", Value: "-5"}), newNode("n1", nil, taint("k", "-4", noExecute)), run, nil,
		},
		{
			"D-1 compares no octal number",
			tolerates(corev1.Toleration{Key: "k", Operator: "Gt", Value: "5"}), newNode("n1", nil, taint("k", "010", noExecute)), leave, untolerated,
		},
		{
			"D-1 an operator that nobody knows",
			tolerates(corev1.Toleration{Key: "k", Operator: "Is", Value: "v"}), newNode("n1", nil, taint("k", "v", noExecute)), leave, untolerated,
		},
		{"D-1 cordoned", corev1.PodSpec{}, cordoned, stay, untolerated},
		{"D-1 cordoned and tainted so", corev1.PodSpec{}, cordonedTwice, stay, untolerated},
		{"D-1 cordoned, tolerated", tolerates(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: "Exists"}), cordoned, run, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			requirements, _ := nodefit.New(&tc.spec)
			got := requirements.Fits(tc.node)
			if diff := cmp.Diff(verdict{tc.want == run, tc.want != leave}, verdict{got.Run, got.Continue}); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			var found []why
			for _, r := range got.Why {
				found = append(found, why{r.Code, r.Path})
				if r.Object.Kind != "Node" || r.Object.Name != tc.node.Name {
					t.Errorf("reason is not about the Node: %v", r)
				}
			}
			if diff := cmp.Diff(tc.why, found); diff != "" {
				t.Errorf("why (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasonsReadWell(t *testing.T) {
	spec := requires(expressions(requirement("zone", "In", "a", "b")), expressions(requirement("zone", "Exists"), requirement("rank", "Gt", "x")))
	spec.NodeName, spec.NodeSelector = "n2", map[string]string{"disk": "ssd"}
	requirements, err := nodefit.New(&spec)
	got := requirements.Fits(newNode("n1", map[string]string{"disk": "hdd"}, taint("gpu", "", corev1.TaintEffectNoExecute)))
	want := []string{
		"OtherNode: Node n1: spec.nodeName: n2; name this Node, or none",
		`NodeSelectorUnmet: Node n1: spec.nodeSelector[disk]: "ssd": the Node has "hdd"; label the Node, or change the selector`,
		"NodeAffinityUnmet: Node n1: " + terms + `[0].matchExpressions[0]: zone In ["a" "b"]: the Node has no such label; label the Node, or change the affinity`,
		"InvalidNodeTerm: Node n1: " + terms + `[1].matchExpressions[1]: rank Gt ["x"]: values[0]: Invalid value: "x": ` +
			"for 'Gt', 'Lt' operators, the value must be an integer; use a requirement that Nodes can meet",
		"UntoleratedTaint: Node n1: spec.tolerations: gpu:NoExecute: a taint of the Node; tolerate the taint, or remove it",
	}
	var lines []string
	for _, r := range got.Why {
		lines = append(lines, r.String())
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
	if !errors.Is(err, nodefit.InvalidNodeTerm) {
		t.Errorf("New: %v", err)
	}
}

// TestReasonsAreBounded: a Verdict has at most ten reasons, however many requirements the Node does not meet.
func TestReasonsAreBounded(t *testing.T) {
	many := corev1.PodSpec{NodeSelector: map[string]string{}}
	var list []corev1.NodeSelectorTerm
	var taints []corev1.Taint
	for i := range 100 {
		key := fmt.Sprint("key", i)
		many.NodeSelector[key] = "x"
		list = append(list, expressions(requirement(key, "Exists")))
		taints = append(taints, taint(key, "", corev1.TaintEffectNoSchedule))
	}
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		node *corev1.Node
		want verdict
	}{
		"labels": {many, newNode("n1", nil), verdict{false, false}},
		"terms":  {requires(list...), newNode("n1", nil), verdict{false, false}},
		"taints": {corev1.PodSpec{}, newNode("n1", nil, taints...), verdict{false, true}},
		"taints, the last of which evicts": {
			corev1.PodSpec{}, newNode("n1", nil, append(taints, taint("last", "", corev1.TaintEffectNoExecute))...), verdict{false, false},
		},
		"terms behind taints that are no reason": {requires(list...), newNode("n1", nil, taints...), verdict{false, false}},
		"terms behind labels":                    {corev1.PodSpec{NodeSelector: many.NodeSelector, Affinity: requires(list...).Affinity}, newNode("n1", nil), verdict{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			requirements, err := nodefit.New(&tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			got := requirements.Fits(tc.node)
			if diff := cmp.Diff(tc.want, verdict{got.Run, got.Continue}); diff != "" || len(got.Why) != 10 {
				t.Errorf("%d reasons, verdict (-want +got):\n%s", len(got.Why), diff)
			}
		})
	}
}

func TestNewNamesEverythingThatCannotBeCompiled(t *testing.T) {
	spec := requires(
		expressions(requirement("a", "Is", "x"), requirement("b", "In"), requirement("c", "Exists", "x"), requirement("bad key", "Exists"), requirement("d", "Exists")),
		corev1.NodeSelectorTerm{},
		fields(requirement("metadata.name", "In", "n1", "n2"), requirement("metadata.name", "Exists"), requirement("metadata.name", "NotIn", "n1")),
	)
	spec.NodeSelector = map[string]string{"good": "value", "bad key": "", "e": "bad value"}
	spec.Tolerations = []corev1.Toleration{
		{Operator: "Exists"}, {Key: "k", Operator: "Is"}, {Key: "k", Operator: "Lt", Value: "07"}, {Key: "k", Operator: "Gt", Value: "9223372036854775808"},
	}
	requirements, err := nodefit.New(&spec, corev1.Toleration{Key: "more", Operator: "Are"})
	if requirements == nil {
		t.Fatal("no requirements")
	}
	type problem struct {
		Code reason.Code
		Path string
	}
	want := []problem{
		{nodefit.InvalidNodeTerm, "spec.nodeSelector[bad key]"},
		{nodefit.InvalidNodeTerm, "spec.nodeSelector[e]"},
		{nodefit.InvalidNodeTerm, terms + "[0].matchExpressions[0]"},
		{nodefit.InvalidNodeTerm, terms + "[0].matchExpressions[1]"},
		{nodefit.InvalidNodeTerm, terms + "[0].matchExpressions[2]"},
		{nodefit.InvalidNodeTerm, terms + "[0].matchExpressions[3]"},
		{nodefit.InvalidNodeTerm, terms + "[2].matchFields[0]"},
		{nodefit.InvalidNodeTerm, terms + "[2].matchFields[1]"},
		{nodefit.InvalidToleration, "spec.tolerations[1].operator"},
		{nodefit.InvalidToleration, "spec.tolerations[2].value"},
		{nodefit.InvalidToleration, "spec.tolerations[3].value"},
		{nodefit.InvalidToleration, "spec.tolerations[4].operator"},
	}
	var got []problem
	for _, r := range reason.From(err) {
		got = append(got, problem{r.Code, r.Path})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestHealthTolerations: the tolerations cover the taints of an unhealthy Node, but not the taints of a Node that is
// being drained or shut down.
func TestHealthTolerations(t *testing.T) {
	fits := func(edit func(*corev1.Node), tolerations ...corev1.Toleration) bool {
		requirements, err := nodefit.New(&corev1.PodSpec{}, tolerations...)
		if err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{}
		edit(node)
		return requirements.Fits(node).Run
	}
	for _, key := range []string{
		"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/network-unavailable",
		"node.kubernetes.io/disk-pressure", "node.kubernetes.io/memory-pressure", "node.kubernetes.io/pid-pressure",
	} {
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			taint := func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
			if fits(taint) || !fits(taint, nodefit.HealthTolerations()...) {
				t.Errorf("%s:%s: %t without, %t with the tolerations", key, effect, fits(taint), fits(taint, nodefit.HealthTolerations()...))
			}
		}
	}
	for name, edit := range map[string]func(*corev1.Node){
		"cordoned": func(node *corev1.Node) { node.Spec.Unschedulable = true },
		"another": func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}}
		},
		"shutdown": func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/shutdown", Effect: corev1.TaintEffectNoSchedule}}
		},
	} {
		if fits(edit, nodefit.HealthTolerations()...) {
			t.Errorf("%s: it is tolerated", name)
		}
	}
}

func TestDaemonSetTolerations(t *testing.T) {
	tests := []struct {
		name        string
		hostNetwork bool
		taint       corev1.Taint
		want        bool
	}{
		{"D-1 not ready", false, taint("node.kubernetes.io/not-ready", "", "NoExecute"), true},
		{"D-1 not ready, scheduling", false, taint("node.kubernetes.io/not-ready", "", "NoSchedule"), false},
		{"D-1 unreachable", false, taint("node.kubernetes.io/unreachable", "", "NoExecute"), true},
		{"D-1 disk pressure", false, taint("node.kubernetes.io/disk-pressure", "", "NoSchedule"), true},
		{"D-1 disk pressure, evicting", false, taint("node.kubernetes.io/disk-pressure", "", "NoExecute"), false},
		{"D-1 memory pressure", false, taint("node.kubernetes.io/memory-pressure", "", "NoSchedule"), true},
		{"D-1 pid pressure", false, taint("node.kubernetes.io/pid-pressure", "", "NoSchedule"), true},
		{"D-1 unschedulable", false, taint("node.kubernetes.io/unschedulable", "", "NoSchedule"), true},
		{"D-1 no network", false, taint("node.kubernetes.io/network-unavailable", "", "NoSchedule"), false},
		{"D-1 no network, which the Pod does not need", true, taint("node.kubernetes.io/network-unavailable", "", "NoSchedule"), true},
		{"D-1 control plane", true, taint("node-role.kubernetes.io/control-plane", "", "NoSchedule"), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			requirements, err := nodefit.New(&corev1.PodSpec{}, nodefit.DaemonSetTolerations(tc.hostNetwork)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := requirements.Fits(newNode("n1", nil, tc.taint)).Run; got != tc.want {
				t.Errorf("runs: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestTolerate(t *testing.T) {
	notReady := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	impatient := notReady
	impatient.TolerationSeconds = ptr.To(int64(5))
	own := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}
	tests := []struct {
		name            string
		have, add, want []corev1.Toleration
	}{
		{"D-1 nothing to add", []corev1.Toleration{own}, nil, []corev1.Toleration{own}},
		{"D-1 at the end", []corev1.Toleration{own}, []corev1.Toleration{notReady}, []corev1.Toleration{own, notReady}},
		{"D-1 in place of an impatient one", []corev1.Toleration{impatient, own}, []corev1.Toleration{notReady}, []corev1.Toleration{notReady, own}},
		{"D-1 there already", []corev1.Toleration{notReady, own}, []corev1.Toleration{notReady}, []corev1.Toleration{notReady, own}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			spec := corev1.PodSpec{Tolerations: tc.have}
			shared := append([]corev1.Toleration(nil), tc.have...)
			nodefit.Tolerate(&spec, tc.add...)
			if diff := cmp.Diff(tc.want, spec.Tolerations); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(shared, tc.have); diff != "" {
				t.Errorf("the slice that the spec shared has changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestPin(t *testing.T) {
	pinned := func(node string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{fields(requirement("metadata.name", "In", node))}}
	}
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: expressions(requirement("a", "Exists"))}}
	pods := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}}}
	tests := []struct {
		name string
		have *corev1.Affinity
		want *corev1.Affinity
	}{
		{"D-2 without affinity", nil, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: pinned("n1")}}},
		{
			"D-2 beside what the scheduler still looks at",
			&corev1.Affinity{PodAntiAffinity: pods, NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}},
			&corev1.Affinity{PodAntiAffinity: pods, NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: preferred, RequiredDuringSchedulingIgnoredDuringExecution: pinned("n1"),
			}},
		},
		{
			"D-2 in place of all terms",
			requires(expressions(requirement("a", "Exists")), fields(requirement("metadata.name", "NotIn", "n2"))).Affinity,
			&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: pinned("n1")}},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			shared := tc.have.DeepCopy()
			spec := corev1.PodSpec{Affinity: tc.have}
			nodefit.Pin(&spec, "n1")
			if diff := cmp.Diff(tc.want, spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(shared, tc.have); diff != "" {
				t.Errorf("the affinity that the spec shared has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestPlace: Place adds the tolerations given to New, and pins the Pod to the Node.
func TestPlace(t *testing.T) {
	template := corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}}
	requirements, err := nodefit.New(&template, nodefit.DaemonSetTolerations(true)...)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Spec: *template.DeepCopy()}
	requirements.Place(pod, "n1")
	want := template.DeepCopy()
	nodefit.Tolerate(want, nodefit.DaemonSetTolerations(true)...)
	nodefit.Pin(want, "n1")
	if diff := cmp.Diff(want, &pod.Spec); diff != "" || len(want.Tolerations) != 8 {
		t.Errorf("spec with %d tolerations (-want +got):\n%s", len(want.Tolerations), diff)
	}
}

func TestNodeOf(t *testing.T) {
	bound := requires(fields(requirement("metadata.name", "In", "n1")))
	bound.NodeName = "n2"
	tests := []struct {
		name string
		spec corev1.PodSpec
		want string
		err  error
	}{
		{"D-2 bound", corev1.PodSpec{NodeName: "n1"}, "n1", nil},
		{"D-2 bound elsewhere", bound, "n2", nil},
		{"D-2 pinned", requires(fields(requirement("metadata.name", "In", "n1"))), "n1", nil},
		{"D-2 pinned by a later term", requires(expressions(requirement("a", "Exists")), fields(requirement("metadata.name", "In", "n1"))), "n1", nil},
		{"D-2 no affinity", corev1.PodSpec{}, "", nodefit.NotPinned},
		{"D-2 affinity to Pods", corev1.PodSpec{Affinity: &corev1.Affinity{}}, "", nodefit.NotPinned},
		{"D-2 no term", requires(), "", nodefit.NotPinned},
		{"D-2 kept away", requires(fields(requirement("metadata.name", "NotIn", "n1"))), "", nodefit.NotPinned},
		{"D-2 another field", requires(fields(requirement("metadata.uid", "In", "n1"))), "", nodefit.NotPinned},
		{"no name", requires(fields(requirement("metadata.name", "In", ""))), "", nodefit.NotPinned},
		{"D-2 two Nodes", requires(fields(requirement("metadata.name", "In", "n1", "n2"))), "", nodefit.NotPinned},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := nodefit.NodeOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: tc.spec})
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("NodeOf = %q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

// nodes returns 5,000 Nodes of a cluster. Every tenth Node has a GPU.
func nodes() []*corev1.Node {
	all := make([]*corev1.Node, 5000)
	for i := range all {
		labels := map[string]string{corev1.LabelHostname: fmt.Sprint("h", i), corev1.LabelOSStable: "linux", "zone": "a", "gpu": fmt.Sprint(i % 10)}
		all[i] = newNode(fmt.Sprint("n", i), labels, taint(corev1.TaintNodeUnschedulable, "", corev1.TaintEffectNoSchedule))
	}
	return all
}

func TestYesAllocatesNothing(t *testing.T) {
	spec := requires(expressions(requirement("zone", "In", "b", "a"), requirement("gpu", "Lt", "10")), fields(requirement("metadata.name", "In", "n2")))
	spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
	requirements, err := nodefit.New(&spec, nodefit.DaemonSetTolerations(true)...)
	if err != nil {
		t.Fatal(err)
	}
	all := nodes()[:100]
	if got := testing.AllocsPerRun(10, func() {
		for _, node := range all {
			if !requirements.Fits(node).Run {
				t.Error("does not fit", node.Name)
			}
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkFits(b *testing.B) {
	for name, gpu := range map[string]string{"5000 Nodes, all fit": "10", "5000 Nodes, one in ten fits": "1"} {
		b.Run(name, func(b *testing.B) {
			spec := requires(expressions(requirement("zone", "In", "b", "a"), requirement("gpu", "Lt", gpu)))
			spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
			requirements, err := nodefit.New(&spec, nodefit.DaemonSetTolerations(true)...)
			if err != nil {
				b.Fatal(err)
			}
			all := nodes()
			for b.Loop() {
				for _, node := range all {
					requirements.Fits(node)
				}
			}
		})
	}
}
