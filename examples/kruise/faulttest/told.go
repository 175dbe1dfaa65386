package faulttest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// IsTold reports whether the status of an object is about the newest spec, and a condition reports that the spec is
// invalid.
func IsTold(object metav1.Object, observed int64, conditions v1beta1.Conditions) bool {
	c := conditions.Find(apps.ConditionInvalidSpec)
	return c != nil && c.Status == corev1.ConditionTrue && observed == object.GetGeneration()
}
