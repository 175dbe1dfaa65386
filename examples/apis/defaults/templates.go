package defaults

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Templates are what a workload makes Pods and claims from.
type Templates struct {
	Pod    *corev1.PodTemplateSpec
	Claims []corev1.PersistentVolumeClaim
}

// Default fills in defaults where a template is not as it is stored: a default that a newer version learned would otherwise roll every Pod.
// The zero value of stored stands for an object that is created.
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
