package nodefit

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// NotPinned means that a Pod is not bound to a Node, and its affinity names no Node.
const NotPinned reason.Code = "NotPinned"

// Pin makes the spec's required node affinity name the Node, so that the scheduler can bind the Pod only to this
// Node. The new term replaces all earlier terms, because a Node needs to match only one term, so an earlier term
// could allow another Node. Requirements.Fits has checked the earlier terms already. All other parts of the affinity
// are unchanged. Pin gives the spec a new affinity, so the spec may be a shallow copy of a template's spec.
func Pin(spec *corev1.PodSpec, node string) {
	var affinity corev1.Affinity
	if spec.Affinity != nil {
		affinity = *spec.Affinity
	}
	var nodeAffinity corev1.NodeAffinity
	if affinity.NodeAffinity != nil {
		nodeAffinity = *affinity.NodeAffinity
	}
	nodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
	affinity.NodeAffinity = &nodeAffinity
	spec.Affinity = &affinity
}

// Place prepares a new Pod for a Node accepted by Fits: Place adds the tolerations given to New, and calls Pin. Place
// is safe for concurrent use.
func (r *Requirements) Place(pod *corev1.Pod, node string) {
	Tolerate(&pod.Spec, r.added...)
	Pin(&pod.Spec, node)
}

// NodeOf returns the name of the Node to which the Pod is bound, or else of the Node named by the Pod's affinity. The
// error is a reason, NotPinned.
func NodeOf(pod *corev1.Pod) (string, error) {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, nil
	}
	notPinned := reason.Reason{
		Code: NotPinned, Object: reason.ObjectOf("Pod", pod), Path: requiredPath, Remedy: "pin the Pod to its Node when it is created",
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", notPinned
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key != metav1.ObjectNameField || field.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if len(field.Values) != 1 || field.Values[0] == "" {
				notPinned.New, notPinned.Detail = textOf(field), "more than one Node, or none"
				return "", notPinned
			}
			return field.Values[0], nil
		}
	}
	return "", notPinned
}
