package podprobemarker

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
)

// validateUpdate returns the errors in an update. An error that the stored object has too is left out, because
// OpenKruise may have accepted the stored value.
func validateUpdate(obj, stored *v1alpha1.PodProbeMarker) field.ErrorList {
	errs := validation.NewProblems(probes.ValidateSpec(obj), probes.ValidateSpec(stored))
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, stored.Spec.Selector) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "selector"), "is immutable"))
	}
	return errs
}
