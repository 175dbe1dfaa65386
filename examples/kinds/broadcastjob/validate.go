package broadcastjob

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// maxName is the largest length of a name, in characters: a label on every Pod has the name as its value.
const maxName = utilvalidation.LabelValueMaxLength

// validateSpec returns all errors in a spec.
func validateSpec(obj *v1beta1.BroadcastJob) field.ErrorList {
	_, problems, warnings := resolve(obj)
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateCreate returns the errors in a new object with defaults. The name must not contain a dot.
func validateCreate(obj *v1beta1.BroadcastJob) field.ErrorList {
	return append(validation.NameUpTo(maxName, obj, apivalidation.NameIsDNSLabel), validateSpec(obj)...)
}

// validateUpdate returns the errors in an update. Errors in the spec that old has too, at the same path with the same
// value, are left out.
func validateUpdate(obj, old *v1beta1.BroadcastJob) field.ErrorList {
	return validation.NewProblems(validateSpec(obj), validateSpec(old))
}
