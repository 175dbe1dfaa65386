package ephemeraljob

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateSpec returns all errors in a spec.
func validateSpec(obj *v1alpha1.EphemeralJob) field.ErrorList {
	_, problems, warnings := resolve(obj)
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateUpdate returns the errors in an update. Errors in the spec that old has too, at the same path with the same
// value, are left out.
func validateUpdate(obj, old *v1alpha1.EphemeralJob) field.ErrorList {
	return validation.NewProblems(validateSpec(obj), validateSpec(old))
}

// warn returns warnings about values with which a job would do nothing.
func warn(obj *v1alpha1.EphemeralJob) (texts []string) {
	if isEmpty(obj.Spec.Selector) {
		texts = append(texts, "spec.selector: is empty, and selects no Pod")
	}
	if len(obj.Spec.Template.EphemeralContainers) == 0 {
		texts = append(texts, "spec.template.ephemeralContainers: is empty, so there is nothing to run")
	}
	return texts
}
