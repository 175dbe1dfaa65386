package broadcastjob

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// maxName is the longest name, in characters: the name is the value of a label on every Pod.
const maxName = utilvalidation.LabelValueMaxLength

// ValidateCreate returns the problems of a new, defaulted object. Names have no dots.
func ValidateCreate(obj *v1beta1.BroadcastJob) field.ErrorList {
	return append(validation.NameUpTo(maxName, obj, apivalidation.NameIsDNSLabel), ValidateSpec(&obj.Spec, specPath())...)
}

// ValidateUpdate returns the problems of an update. Problems of spec already in old, in the same place with the same
// value, are left out.
func ValidateUpdate(obj, old *v1beta1.BroadcastJob) field.ErrorList {
	return validation.NewProblems(ValidateSpec(&obj.Spec, specPath()), ValidateSpec(&old.Spec, specPath()))
}

func specPath() *field.Path { return field.NewPath("spec") }

// ValidateSpec returns the problems of a spec: [Unusable] values, and working mistakes.
func ValidateSpec(spec *v1beta1.BroadcastJobSpec, path *field.Path) field.ErrorList {
	errs := Unusable(spec, path)
	errs = append(errs, validation.Reserved(&spec.Template, apps.ReservedBroadcastJobLabels(), path.Child("template", "metadata"))...)
	if spec.CompletionPolicy.Type != v1beta1.Never {
		return errs
	}
	const unused = "has no meaning with type Never: such a job does not end"
	completion := path.Child("completionPolicy")
	if spec.CompletionPolicy.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(completion.Child("activeDeadlineSeconds"), unused))
	}
	if spec.CompletionPolicy.TTLSecondsAfterFinished != nil {
		errs = append(errs, field.Forbidden(completion.Child("ttlSecondsAfterFinished"), unused))
	}
	return errs
}
