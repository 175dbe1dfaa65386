package nodefit

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// These are the codes of reasons why a Pod must not run on a Node.
const (
	// OtherNode means that the Pod's spec names another Node.
	OtherNode reason.Code = "OtherNode"
	// NodeSelectorUnmet means that a Node does not have a label of the Pod's nodeSelector, or has another value.
	NodeSelectorUnmet reason.Code = "NodeSelectorUnmet"
	// NodeAffinityUnmet means that a Node does not match the Pod's required node affinity. The reasons name, for each
	// term, the first requirement that the Node does not meet.
	NodeAffinityUnmet reason.Code = "NodeAffinityUnmet"
	// UntoleratedTaint means that the Pod does not tolerate a taint of the Node.
	UntoleratedTaint reason.Code = "UntoleratedTaint"
)

// Requirements are a Pod's requirements for its Node, compiled by New. The zero value requires nothing, and tolerates
// no taint.
type Requirements struct {
	nodeName    string
	labels      []label
	affinity    *affinity
	tolerations []toleration
	added       []corev1.Toleration
}

// label is an entry of a nodeSelector.
type label struct{ key, value string }

// Verdict says whether a Pod may run on a Node.
type Verdict struct {
	// Run means that the Pod should run on the Node: create the Pod if it is missing.
	Run bool
	// Continue means that a Pod that already runs on the Node should stay. Continue is true whenever Run is true.
	Continue bool
	// Why lists why the Pod should not run on the Node, and is empty if Run is true. Each reason's Object is the Node,
	// and its Path the field of the Pod's spec that the Node does not match. Why has at most ten reasons, because many
	// Nodes times a long spec would need too much memory.
	Why reason.List
}

// New compiles the requirements of Pods with the given spec and the additional tolerations. The caller may modify the
// spec afterwards.
//
// The error is a reason.List of InvalidNodeTerm and InvalidToleration, with a reason for each part that is invalid. The
// Requirements can be used even then, and decide like the scheduler: an invalid term matches no Node, an invalid
// toleration tolerates nothing, and all valid parts count. The caller decides whether to continue or to refuse the
// spec.
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

// Fits says whether a Pod with these requirements may run on the Node.
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

// refuse records a reason against both new and existing Pods on the Node.
func (v *Verdict) refuse(node *corev1.Node, why reason.Reason) {
	v.Continue = false
	v.hold(node, why)
}

// hold records a reason against new Pods on the Node.
func (v *Verdict) hold(node *corev1.Node, why reason.Reason) {
	v.Run = false
	if v.isFull() {
		return
	}
	why.Object = reason.Object{Kind: "Node", Name: node.Name, UID: node.UID}
	v.Why = append(v.Why, why)
}

// maxReasons is the largest number of reasons in a verdict.
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

// has describes the value of a Node's label, for a reason.
func has(value string, found bool) string {
	if !found {
		return "the Node has no such label"
	}
	return "the Node has " + strconv.Quote(value)
}

// checkTaints checks each taint of effect NoSchedule or NoExecute, and whether the Node is cordoned.
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
