package nodefit

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Codes of the reasons why a Pod does not run on a Node.
const (
	// OtherNode means that the Pod's spec names another Node.
	OtherNode reason.Code = "OtherNode"
	// NodeSelectorUnmet means that a Node lacks a label of the Pod's nodeSelector, or has another value for it.
	NodeSelectorUnmet reason.Code = "NodeSelectorUnmet"
	// NodeAffinityUnmet means that a Node does not fulfil the Pod's required node affinity. There is a reason for each term, with the
	// first requirement of it that is not met.
	NodeAffinityUnmet reason.Code = "NodeAffinityUnmet"
	// UntoleratedTaint means that a Node has a taint that the Pod does not tolerate.
	UntoleratedTaint reason.Code = "UntoleratedTaint"
)

// Requirements are what a Pod requires of its Node, compiled by New. The zero value requires nothing and tolerates nothing.
type Requirements struct {
	nodeName    string
	labels      []label
	affinity    *affinity
	tolerations []toleration
	added       []corev1.Toleration
}

// label is an entry of a nodeSelector.
type label struct{ key, value string }

// Verdict says whether a Pod may be on a Node.
type Verdict struct {
	// Run means that the Pod should run on the Node: create it if it is not there.
	Run bool
	// Continue means that a Pod which is on the Node already should stay. It is true wherever Run is.
	Continue bool
	// Why says what keeps the Pod from running there; it is empty where Run is true. Each reason's Object is the Node and its Path the
	// field of the Pod's spec that the Node does not suit. It holds the first ten reasons, or a long spec would fill the memory for every
	// Node that does not fit.
	Why reason.List
}

// New compiles what Pods of the spec require of a Node, once they have the tolerations too. The spec may change afterwards.
//
// The error is a reason.List of InvalidNodeTerm and InvalidToleration, with a reason for each thing that cannot be compiled. The
// Requirements are valid even then, and decide as the scheduler does: a term that cannot be compiled fits no Node, a toleration tolerates
// nothing, and the others count. Whether to go on with them or to refuse the spec is up to the caller.
func New(spec *corev1.PodSpec, tolerations ...corev1.Toleration) (*Requirements, error) {
	var problems reason.List
	r := &Requirements{nodeName: spec.NodeName, added: slices.Clone(tolerations)}
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		l := label{key, spec.NodeSelector[key]}
		problems = append(problems, l.problems()...)
		r.labels = append(r.labels, l)
	}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		compiled, invalid := compileAffinity(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		problems = append(problems, invalid...)
		r.affinity = compiled
	}
	for i, t := range merged(spec.Tolerations, tolerations) {
		compiled, invalid := compileToleration(t, "spec.tolerations["+strconv.Itoa(i)+"]")
		problems = append(problems, invalid...)
		r.tolerations = append(r.tolerations, compiled)
	}
	return r, problems.Err()
}

// Fits says whether a Pod of these requirements may be on the Node.
func (r *Requirements) Fits(node *corev1.Node) Verdict {
	v := Verdict{Run: true, Continue: true}
	if r.nodeName != "" && r.nodeName != node.Name {
		v.refuse(node, reason.Reason{Code: OtherNode, Path: "spec.nodeName", New: r.nodeName, Remedy: "name this Node, or none"})
	}
	for i := range r.labels {
		r.labels[i].check(node, &v)
	}
	if r.affinity != nil && !r.affinity.matches(node) {
		r.affinity.explain(node, &v)
	}
	r.checkTaints(node, &v)
	return v
}

// refuse notes why neither a new Pod nor one that is there should be on the Node.
func (v *Verdict) refuse(node *corev1.Node, why reason.Reason) {
	v.Continue = false
	v.hold(node, why)
}

// hold notes why no new Pod should be on the Node.
func (v *Verdict) hold(node *corev1.Node, why reason.Reason) {
	v.Run = false
	if v.isFull() {
		return
	}
	why.Object = reason.Object{Kind: "Node", Name: node.Name, UID: node.UID}
	v.Why = append(v.Why, why)
}

// maxReasons is how many reasons a verdict holds.
const maxReasons = 10

func (v *Verdict) isFull() bool { return len(v.Why) >= maxReasons }

func (l *label) check(node *corev1.Node, v *Verdict) {
	value, found := node.Labels[l.key]
	if found && value == l.value || v.isFull() {
		return
	}
	v.refuse(node, reason.Reason{
		Code: NodeSelectorUnmet, Path: "spec.nodeSelector[" + l.key + "]", New: strconv.Quote(l.value),
		Detail: has(value, found), Remedy: "label the Node, or change the selector",
	})
}

// has says which value of a label a Node has.
func has(value string, found bool) string {
	if !found {
		return "the Node has no such label"
	}
	return "the Node has " + strconv.Quote(value)
}

// checkTaints looks at each taint that keeps Pods away, and at being cordoned.
func (r *Requirements) checkTaints(node *corev1.Node, v *Verdict) {
	cordoned := node.Spec.Unschedulable
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		cordoned = cordoned && (taint.Key != corev1.TaintNodeUnschedulable || taint.Effect != corev1.TaintEffectNoSchedule)
		r.checkTaint(node, taint, v)
	}
	if cordoned {
		r.checkTaint(node, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, v)
	}
}

func (r *Requirements) checkTaint(node *corev1.Node, taint *corev1.Taint, v *Verdict) {
	evicts := taint.Effect == corev1.TaintEffectNoExecute
	if !evicts && taint.Effect != corev1.TaintEffectNoSchedule || tolerated(r.tolerations, taint) {
		return
	}
	why := reason.Reason{
		Code: UntoleratedTaint, Path: "spec.tolerations", New: taint.ToString(),
		Detail: "a taint of the Node", Remedy: "tolerate the taint, or remove it",
	}
	if evicts {
		v.refuse(node, why)
		return
	}
	v.hold(node, why)
}
