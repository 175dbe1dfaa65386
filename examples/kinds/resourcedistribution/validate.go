package resourcedistribution

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// validateCreate returns the errors in a new object, except errors in the resource that only the API server can find.
func validateCreate(obj *v1beta1.ResourceDistribution) field.ErrorList {
	_, problems, warnings := resolve(&obj.Spec)
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateUpdate returns the errors in an update. An unchanged spec is not validated, because users must be able to
// remove finalizers.
func validateUpdate(obj, stored *v1beta1.ResourceDistribution) field.ErrorList {
	if apiequality.Semantic.DeepEqual(obj.Spec, stored.Spec) {
		return nil
	}
	errs := validateCreate(obj)
	next, problems := api.Read(obj.Spec.Resource.Raw, api.ResourcePath())
	old, _ := api.Read(stored.Spec.Resource.Raw, api.ResourcePath())
	if len(problems) > 0 || old == nil {
		return errs
	}
	const why = "cannot change: copies under the former one would be left behind; make another ResourceDistribution"
	if next.Kind != old.Kind {
		errs = append(errs, field.Invalid(api.ResourcePath().Child("kind"), next.Kind, why))
	}
	if next.Name != old.Name {
		errs = append(errs, field.Invalid(api.ResourcePath().Child("metadata", "name"), next.Name, why))
	}
	return errs
}
