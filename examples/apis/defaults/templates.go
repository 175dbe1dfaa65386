package defaults

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Templates are a workload's templates of Pods and claims.
type Templates struct {
	Pod    *corev1.PodTemplateSpec
	Claims []corev1.PersistentVolumeClaim
}

// Default fills in defaults in templates that differ from the stored templates: a default added by a newer version
// would otherwise update every Pod. The zero value of stored stands for a new object.
func (t Templates) Default(stored Templates, opts Options) {
	if stored.Pod == nil || !apiequality.Semantic.DeepEqual(t.Pod, stored.Pod) {
		PodTemplate(t.Pod, opts)
	}
	for i := range t.Claims {
		if claim := &t.Claims[i]; stored.Pod == nil || !isStored(claim, stored.Claims) {
			ClaimTemplate(claim)
		}
	}
}

func isStored(claim *corev1.PersistentVolumeClaim, stored []corev1.PersistentVolumeClaim) bool {
	for i := range stored {
		if apiequality.Semantic.DeepEqual(claim, &stored[i]) {
			return true
		}
	}
	return false
}
