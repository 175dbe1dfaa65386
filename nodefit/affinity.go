package nodefit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/workloadkit/workloadkit/reason"
)

// InvalidNodeTerm means that the spec's nodeSelector or a requirement of its node affinity is invalid. No Node matches
// a term with such a requirement.
const InvalidNodeTerm reason.Code = "InvalidNodeTerm"

// expressions and fields are the names of the fields in which a term has its requirements.
const expressions, fields = "matchExpressions", "matchFields"

const requiredPath = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

// affinity is a required node affinity: a Node must match at least one of the terms.
type affinity struct{ terms []term }

// term is a compiled nodeSelectorTerm of the required node affinity. A Node must meet all its requirements. A term that
// cannot be compiled holds the reasons.
type term struct {
	labels  []requirement
	fields  []fieldRequirement
	invalid reason.List
}

// place locates a requirement in the spec: the index of its term, and its index in the term's expressions or fields.
// Paths and texts are made only when a reason is reported, to save memory, because a controller keeps the requirements
// of thousands of templates.
type place struct{ term, at int32 }

func (p place) path(kind string) string {
	return fmt.Sprintf("%s[%d].%s[%d]", requiredPath, p.term, kind, p.at)
}

// requirement is a requirement about the Node's labels.
type requirement struct {
	labels.Requirement
	place

	operator corev1.NodeSelectorOperator
}

func (r *requirement) text() string {
	return textOf(corev1.NodeSelectorRequirement{Key: r.Key(), Operator: r.operator, Values: r.ValuesUnsorted()})
}

// fieldRequirement is a requirement about a field of the Node. The only such field is the name.
type fieldRequirement struct {
	key, value string
	differs    bool // the field must have a different value
	place
}

func (f *fieldRequirement) text() string {
	operator := corev1.NodeSelectorOpIn
	if f.differs {
		operator = corev1.NodeSelectorOpNotIn
	}
	return textOf(corev1.NodeSelectorRequirement{Key: f.key, Operator: operator, Values: []string{f.value}})
}

func compileAffinity(selector *corev1.NodeSelector) (*affinity, reason.List) {
	var problems reason.List
	a := &affinity{}
	for i, from := range selector.NodeSelectorTerms {
		if len(from.MatchExpressions) == 0 && len(from.MatchFields) == 0 {
			continue // an empty term matches no Node
		}
		t := compileTerm(from, int32(i))
		problems = append(problems, t.invalid...)
		a.terms = append(a.terms, t)
	}
	return a, problems
}

func compileTerm(from corev1.NodeSelectorTerm, number int32) term {
	var t term
	for i, expression := range from.MatchExpressions {
		at := place{number, int32(i)}
		compiled, err := compileRequirement(expression)
		if err != nil {
			t.invalid = append(t.invalid, reason.Reason{
				Code: InvalidNodeTerm, Path: at.path(expressions), New: textOf(expression), Detail: err.Error(), Remedy: "use a requirement that Nodes can meet",
			})
			continue
		}
		t.labels = append(t.labels, requirement{*compiled, at, expression.Operator})
	}
	for i, field := range from.MatchFields {
		at := place{number, int32(i)}
		if len(field.Values) != 1 || field.Operator != corev1.NodeSelectorOpIn && field.Operator != corev1.NodeSelectorOpNotIn {
			t.invalid = append(t.invalid, reason.Reason{
				Code: InvalidNodeTerm, Path: at.path(fields), New: textOf(field), Detail: "no requirement on a field", Remedy: "use In or NotIn with one value",
			})
			continue
		}
		t.fields = append(t.fields, fieldRequirement{field.Key, field.Values[0], field.Operator == corev1.NodeSelectorOpNotIn, at})
	}
	return t
}

// compileRequirement parses a requirement like a label selector.
func compileRequirement(from corev1.NodeSelectorRequirement) (*labels.Requirement, error) {
	operators := map[corev1.NodeSelectorOperator]selection.Operator{
		corev1.NodeSelectorOpIn:           selection.In,
		corev1.NodeSelectorOpNotIn:        selection.NotIn,
		corev1.NodeSelectorOpExists:       selection.Exists,
		corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
		corev1.NodeSelectorOpGt:           selection.GreaterThan,
		corev1.NodeSelectorOpLt:           selection.LessThan,
	}
	operator, known := operators[from.Operator]
	if !known {
		return nil, fmt.Errorf("unknown operator %q", reason.Shorten(string(from.Operator), maxText))
	}
	return labels.NewRequirement(from.Key, operator, slices.Clone(from.Values))
}

// maxText is the number of characters of a value shown in a reason.
const maxText = 100

func textOf(r corev1.NodeSelectorRequirement) string {
	text := r.Key + " " + string(r.Operator)
	if len(r.Values) > 0 {
		text += fmt.Sprintf(" %q", r.Values[:min(len(r.Values), maxText)])
	}
	return reason.Shorten(text, maxText)
}

func (a *affinity) matches(node *corev1.Node) bool {
	for i := range a.terms {
		if a.terms[i].matches(node) {
			return true
		}
	}
	return false
}

func (t *term) matches(node *corev1.Node) bool {
	if t.invalid != nil {
		return false
	}
	for i := range t.labels {
		if !t.labels[i].Matches(labels.Set(node.Labels)) {
			return false
		}
	}
	for i := range t.fields {
		if !t.fields[i].matches(node) {
			return false
		}
	}
	return true
}

// matches returns true for a Node without a name, because only the labels of such a Node are known.
func (f *fieldRequirement) matches(node *corev1.Node) bool {
	if node.Name == "" {
		return true
	}
	have := ""
	if f.key == metav1.ObjectNameField {
		have = node.Name
	}
	return (have == f.value) != f.differs
}

// explain adds reasons to the Verdict: the reasons why the Node matches none of the terms.
func (a *affinity) explain(node *corev1.Node, v *Verdict) {
	if len(a.terms) == 0 {
		v.refuse(node, reason.Reason{
			Code: NodeAffinityUnmet, Path: requiredPath, Detail: "without a term, no Node fits", Remedy: "add a term, or remove the affinity",
		})
	}
	for i := range a.terms {
		v.Run, v.Continue = false, false
		if v.isFull() {
			return
		}
		v.refuse(node, a.terms[i].unmet(node))
	}
}

func (t *term) unmet(node *corev1.Node) reason.Reason {
	if t.invalid != nil {
		return t.invalid[0]
	}
	for i := range t.labels {
		if r := &t.labels[i]; !r.Matches(labels.Set(node.Labels)) {
			value, found := node.Labels[r.Key()]
			return reason.Reason{
				Code: NodeAffinityUnmet, Path: r.path(expressions), New: r.text(), Detail: has(value, found), Remedy: "label the Node, or change the affinity",
			}
		}
	}
	for i := range t.fields {
		if f := &t.fields[i]; !f.matches(node) {
			return reason.Reason{Code: NodeAffinityUnmet, Path: f.path(fields), New: f.text(), Remedy: "change the affinity"}
		}
	}
	return reason.Reason{}
}

// problems lists what is invalid in an entry of a nodeSelector. No Node can have a label with such a key or value.
func (l *label) problems() reason.List {
	if _, err := labels.NewRequirement(l.key, selection.Equals, []string{l.value}); err != nil {
		return reason.List{{
			Code: InvalidNodeTerm, Path: "spec.nodeSelector[" + l.key + "]", New: reason.Shorten(l.value, maxText),
			Detail: err.Error(), Remedy: "use a valid label",
		}}
	}
	return nil
}
