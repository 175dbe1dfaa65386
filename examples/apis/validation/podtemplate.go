package validation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// LongRunning checks what the template of a workload whose Pods run for ever must have besides what every Pod must have:
// restartPolicy Always, and no activeDeadlineSeconds.
func LongRunning(template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	spec, path := &template.Spec, path.Child("spec")
	var errs field.ErrorList
	if policy := spec.RestartPolicy; policy != "" && policy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"), "Pods of this kind have no deadline"))
	}
	return errs
}
