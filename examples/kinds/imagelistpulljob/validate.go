package imagelistpulljob

import (
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateSpec returns all errors in a spec.
func validateSpec(obj *v1beta1.ImageListPullJob) field.ErrorList {
	problems, warnings := resolve(&obj.Spec)
	return append(append(problems.Refusals(), warnings.Refusals()...), validation.PullThrough(obj)...)
}

func validateCreate(obj *v1beta1.ImageListPullJob) field.ErrorList {
	return append(validation.Name(obj, apivalidation.NameIsDNSSubdomain), validateSpec(obj)...)
}

// validateUpdate returns the errors in an update. An error that old has too, at the same path with the same value, is
// left out.
func validateUpdate(obj, old *v1beta1.ImageListPullJob) field.ErrorList {
	return validation.NewProblems(validateSpec(obj), validateSpec(old))
}

func isSame(a, b *v1beta1.ImageListPullJobSpec) bool { return equality.Semantic.DeepEqual(a, b) }
