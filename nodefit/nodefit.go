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
	// NodeSelectorUnmet means that a Node lacks a label of the Pod's nodeSelector, or has another value.
	NodeSelectorUnmet reason.Code = "NodeSelectorUnmet"
	// NodeAffinityUnmet means that a Node does not fulfil the Pod's required node affinity. There is a reason for each
	// term, with the term's first unmet requirement.
	NodeAffinityUnmet reason.Code = "NodeAffinityUnmet"
	// UntoleratedTaint means that the Pod does not tolerate a taint of the Node.
	UntoleratedTaint reason.Code = "UntoleratedTaint"
)

// Requirements are a Pod's requirements for its Node, compiled by New. The zero value requires nothing and tolerates
// nothing.
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
	// Run means that the Pod should run on the Node: create a missing Pod.
	Run bool
	// Continue means that a Pod already on the Node should stay. Continue is true whenever Run is true.
	Continue bool
	// Why lists the obstacles to running on the Node, and is empty if Run is true. Each reason's Object is the Node, and
	// its Path the field of the Pod's spec not met by the Node. Why holds the first ten reasons, because a long spec would
	// fill the memory for every unfit Node.
	Why reason.List
}

// New compiles the requirements of Pods of the spec with the added tolerations. The spec may change afterwards.
//
// The error is a reason.List of InvalidNodeTerm and InvalidToleration, with a reason for each part that cannot be
// compiled. The Requirements are valid even then, and decide like the scheduler: an uncompiled term fits no Node, an
// uncompiled toleration tolerates nothing, and all remaining parts count. The caller decides whether to go on or to
// refuse the spec.
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

// Fits says whether a Pod with the requirements may be on the Node.
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

// refuse notes why neither a new nor a present Pod should be on the Node.
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

// has names the Node's value of a label.
func has(value string, found bool) string {
	if !found {
		return "the Node has no such label"
	}
	return "the Node has " + strconv.Quote(value)
}

// checkTaints checks each repelling taint, and cordoning.
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
