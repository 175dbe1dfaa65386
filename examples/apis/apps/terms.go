package apps

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// MaxTerms is the largest number of terms in a selector, in a strategy that orders Pods, and in a DaemonSet's choice of
// Nodes. Users do not need more terms. A controller checks each term for every Pod or Node again and again, and the
// objects of all namespaces wait meanwhile.
const MaxTerms = 1000

// SelectorTerms counts the terms of a selector: labels, expressions, and the values of expressions. A nil selector has
// no terms.
func SelectorTerms(selector *metav1.LabelSelector) int {
	if selector == nil {
		return 0
	}
	n := len(selector.MatchLabels)
	for i := range selector.MatchExpressions {
		n += 1 + len(selector.MatchExpressions[i].Values)
	}
	return n
}

// NodeTerms counts the terms that decide whether Pods of a spec fit a Node: labels, expressions, values of expressions,
// and tolerations.
func NodeTerms(spec *corev1.PodSpec) int {
	n := len(spec.NodeSelector) + len(spec.Tolerations)
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return n
	}
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		n++
		for _, requirements := range [][]corev1.NodeSelectorRequirement{term.MatchExpressions, term.MatchFields} {
			for i := range requirements {
				n += 1 + len(requirements[i].Values)
			}
		}
	}
	return n
}

// WeightTerms counts the terms that determine the weight of a Pod.
func WeightTerms(weights []pub.WeightPriorityTerm) int {
	n := 0
	for i := range weights {
		n += max(SelectorTerms(&weights[i].MatchSelector), 1)
	}
	return n
}
