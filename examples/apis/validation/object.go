package validation

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// maxName is the largest length of a name, in characters. A label on every Pod has the name with a dash and a hash of
// up to 10 characters as its value, and a value has at most 63 characters.
const maxName = 63 - 1 - 10

// Name validates the name of a workload, or the prefix of a generated name, by the rule for its kind.
func Name(obj metav1.Object, rule apivalidation.ValidateNameFunc) field.ErrorList {
	return NameUpTo(maxName, obj, rule)
}

// NameUpTo does the same as [Name] for a kind with the given largest length of names.
func NameUpTo(longest int, obj metav1.Object, rule apivalidation.ValidateNameFunc) field.ErrorList {
	name, path, prefix := obj.GetName(), field.NewPath("metadata", "name"), false
	if name == "" && obj.GetGenerateName() != "" {
		name, path, prefix = obj.GetGenerateName(), field.NewPath("metadata", "generateName"), true
	}
	if name == "" {
		return field.ErrorList{field.Required(path, "name or generateName is required")}
	}
	var errs field.ErrorList
	for _, msg := range rule(name, prefix) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	if prefix {
		longest -= len("x7k2p") // the API server adds five characters
	}
	if len(name) > longest {
		errs = append(errs, field.TooLong(path, name, longest))
	}
	return errs
}

// NewProblems returns the errors in errs, without the errors in before: an update is not refused for errors that the
// stored object has too.
func NewProblems(errs, before field.ErrorList) field.ErrorList {
	known := map[string]bool{}
	for _, err := range before {
		known[err.Error()] = true
	}
	var fresh field.ErrorList
	for _, err := range errs {
		if !known[err.Error()] {
			fresh = append(fresh, err)
		}
	}
	return fresh
}

// DeletionProtected returns why an object with these labels must not be deleted while it has replicas. Label values
// other than Always and Cascading do not protect the object.
func DeletionProtected(kind string, labels map[string]string, replicas int32) field.ErrorList {
	path := field.NewPath("metadata", "labels").Key(apps.LabelDeleteProtection)
	switch protection := labels[apps.LabelDeleteProtection]; {
	case protection == apps.DeleteProtectionAlways:
		return field.ErrorList{field.Forbidden(path, "Always: remove the label before deleting the "+kind)}
	case protection == apps.DeleteProtectionCascading && replicas > 0:
		return field.ErrorList{field.Forbidden(path, "Cascading: scale to 0 or remove the label before deleting")}
	}
	return nil
}
