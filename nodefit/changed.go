package nodefit

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Changed reports whether Fits may give different verdicts for two versions of a Node. Most updates of a Node only
// report the Node's health, which does not affect Fits.
func Changed(before, after *corev1.Node) bool {
	return before.Name != after.Name || before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
}
