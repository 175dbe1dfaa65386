package apps

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// MaxTerms is how many terms a selector or a strategy that orders Pods may have. Nobody reads more, and each is looked at for every Pod in
// every pass: the objects of other namespaces wait meanwhile.
const MaxTerms = 1000

// SelectorTerms counts what a Pod's labels are compared with: labels, expressions and their values. A nil selector has none.
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

// WeightTerms counts what a Pod's labels are compared with to find its weight.
func WeightTerms(weights []pub.WeightPriorityTerm) int {
	n := 0
	for i := range weights {
		n += max(SelectorTerms(&weights[i].MatchSelector), 1)
	}
	return n
}
