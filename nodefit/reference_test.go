package nodefit_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/reason"
)

// The tests in this file compare verdicts with a slow, simple implementation of the documented rules: the Nodes of a
// DaemonSet's Pods, the meaning of a term, and the API's own check of tolerations.

// verdict is a Verdict without its reasons.
type verdict struct{ Run, Continue bool }

func reference(spec corev1.PodSpec, node *corev1.Node) verdict {
	if spec.NodeName != "" && spec.NodeName != node.Name {
		return verdict{}
	}
	for key, value := range spec.NodeSelector {
		if have, ok := node.Labels[key]; !ok || have != value {
			return verdict{}
		}
	}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return termFits(t, node) }) {
			return verdict{}
		}
	}
	untolerated := func(effect corev1.TaintEffect) bool {
		return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Effect == effect && !slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
				return t.ToleratesTaint(logr.Discard(), &taint, true)
			})
		})
	}
	evicted := untolerated(corev1.TaintEffectNoExecute)
	return verdict{Run: !evicted && !untolerated(corev1.TaintEffectNoSchedule), Continue: !evicted}
}

func termFits(t corev1.NodeSelectorTerm, node *corev1.Node) bool {
	if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
		return false
	}
	// A term with an invalid requirement matches no Node, whatever its other requirements.
	return !slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return !labelFits(r, node.Labels) }) &&
		!slices.ContainsFunc(t.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			value := ""
			if r.Key == metav1.ObjectNameField {
				value = node.Name
			}
			return len(r.Values) != 1 || r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn ||
				(value == r.Values[0]) != (r.Operator == corev1.NodeSelectorOpIn)
		})
}

func labelFits(r corev1.NodeSelectorRequirement, labels map[string]string) bool {
	if r.Key == "bad key" || slices.ContainsFunc(r.Values, func(v string) bool { return v == "bad value" || v == "-7" }) {
		return false
	}
	have, found := labels[r.Key]
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return len(r.Values) > 0 && found && slices.Contains(r.Values, have)
	case corev1.NodeSelectorOpNotIn:
		return len(r.Values) > 0 && (!found || !slices.Contains(r.Values, have))
	case corev1.NodeSelectorOpExists:
		return len(r.Values) == 0 && found
	case corev1.NodeSelectorOpDoesNotExist:
		return len(r.Values) == 0 && !found
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 || !found {
			return false
		}
		limit, err := strconv.Atoi(r.Values[0])
		number, bad := strconv.Atoi(have)
		if err != nil || bad != nil {
			return false
		}
		return r.Operator == corev1.NodeSelectorOpGt && number > limit || r.Operator == corev1.NodeSelectorOpLt && number < limit
	}
	return false
}

// choices decodes specs and Nodes from a fuzzer's bytes.
type choices []byte

func (c *choices) below(n int) int {
	if len(*c) == 0 {
		return 0
	}
	first := (*c)[0]
	*c = (*c)[1:]
	return int(first) % n
}

func pick[T any](c *choices, of ...T) T { return of[c.below(len(of))] }

func (c *choices) value() string { return pick(c, "", "a", "b", "7", "70", "-7", "007", "bad value") }

func (c *choices) requirement(keys ...string) corev1.NodeSelectorRequirement {
	r := corev1.NodeSelectorRequirement{Key: pick(c, keys...), Operator: pick(c,
		corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
		corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, "Is")}
	for range pick(c, 1, 0, 2) {
		r.Values = append(r.Values, c.value())
	}
	return r
}

func (c *choices) spec() corev1.PodSpec {
	spec := corev1.PodSpec{NodeName: pick(c, "", "", "", "a", "b"), HostNetwork: pick(c, false, true)}
	for range c.below(2) {
		spec.NodeSelector = map[string]string{pick(c, "x", "y"): pick(c, "a", "7")}
	}
	if c.below(3) > 0 {
		required := &corev1.NodeSelector{}
		for range c.below(4) {
			var t corev1.NodeSelectorTerm
			for range c.below(3) {
				t.MatchExpressions = append(t.MatchExpressions, c.requirement("x", "y", "bad key"))
			}
			for range c.below(3) {
				t.MatchFields = append(t.MatchFields, c.requirement(metav1.ObjectNameField, metav1.ObjectNameField, "metadata.uid"))
			}
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, t)
		}
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	for range c.below(4) {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: pick(c, "", "k", corev1.TaintNodeNotReady, corev1.TaintNodeUnschedulable), Value: c.value(),
			Operator: pick(c, corev1.TolerationOpExists, "", corev1.TolerationOpEqual, corev1.TolerationOpLt, corev1.TolerationOpGt, "Is"),
			Effect:   pick(c, "", corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule),
		})
	}
	return spec
}

func (c *choices) node() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pick(c, "a", "b"), Labels: map[string]string{}}}
	for range c.below(3) {
		node.Labels[pick(c, "x", "y")] = c.value()
	}
	for range c.below(4) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: pick(c, "k", corev1.TaintNodeNotReady, corev1.TaintNodeUnschedulable, corev1.TaintNodeNetworkUnavailable), Value: c.value(),
			Effect: pick(c, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule),
		})
	}
	return node
}

func FuzzFits(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00\x01", "\x03", "\x00\x01\x00\x02\x02\x01\x00\x04\x00\x03\x01\x00\x00\x00\x04\x02\x01\x00\x04",
		"\x00\x00\x00\x00\x01\x01\x03\x03\x01\x00\x00\x01\x01\x04\x00", "the rest of this is read as it comes, and again and again",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := choices(raw)
		spec, node := c.spec(), c.node()
		added := nodefit.DaemonSetTolerations(spec.HostNetwork)
		before, beforeNode := spec.DeepCopy(), node.DeepCopy()
		requirements, err := nodefit.New(&spec, added...)
		got := requirements.Fits(node)
		if diff := cmp.Diff(*before, spec) + cmp.Diff(beforeNode, node); diff != "" {
			t.Fatalf("the input has changed:\n%s", diff)
		}

		pod := *before
		nodefit.Tolerate(&pod, added...)
		if diff := cmp.Diff(reference(pod, node), verdict{got.Run, got.Continue}); diff != "" {
			t.Errorf("verdict (-reference +got):\n%s%v\non %v\nwhy: %v, problems: %v", diff, spec, node, got.Why, err)
		}
		if got.Run != (len(got.Why) == 0) {
			t.Errorf("Run is %t, and why: %v", got.Run, got.Why)
		}
		for _, why := range append(slices.Clone(got.Why), reason.From(err)...) {
			if why.Code == "" || why.Path == "" || why.Remedy == "" {
				t.Errorf("a reason says too little: %+v", why)
			}
		}

		// A pinned Pod fits only its Node, and the affinity of the original spec is unchanged.
		shallow := spec
		nodefit.Pin(&shallow, node.Name)
		if diff := cmp.Diff(*before, spec); diff != "" {
			t.Fatalf("Pin has changed what the copy shares (-before +after):\n%s", diff)
		}
		shallow.NodeName = ""
		if name, err := nodefit.NodeOf(&corev1.Pod{Spec: shallow}); err != nil || name != node.Name {
			t.Errorf("NodeOf of a Pod pinned to %q = %q, %v", node.Name, name, err)
		}
		pinned, _ := nodefit.New(&corev1.PodSpec{Affinity: shallow.Affinity})
		for _, name := range []string{"a", "b"} {
			other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if fits := pinned.Fits(other).Run; fits != (name == node.Name) {
				t.Errorf("a Pod pinned to %q fits %q: %t", node.Name, name, fits)
			}
		}
	})
}
