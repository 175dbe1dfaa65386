package resourcedistribution

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// ResourcePath is where the resource is.
func ResourcePath() *field.Path { return field.NewPath("spec", "resource") }

// ValidateCreate returns the problems of a new object, apart from problems of the resource known only to the API
// server.
func ValidateCreate(obj *v1beta1.ResourceDistribution) field.ErrorList {
	_, errs := Read(obj.Spec.Resource.Raw, ResourcePath())
	return append(errs, ValidateTargets(&obj.Spec.Targets, field.NewPath("spec", "targets"))...)
}

// ValidateUpdate returns the problems of an update. An unchanged spec is not judged: finalizers must be able to go.
func ValidateUpdate(obj, stored *v1beta1.ResourceDistribution) field.ErrorList {
	if apiequality.Semantic.DeepEqual(obj.Spec, stored.Spec) {
		return nil
	}
	errs := ValidateCreate(obj)
	next, problems := Read(obj.Spec.Resource.Raw, ResourcePath())
	old, _ := Read(stored.Spec.Resource.Raw, ResourcePath())
	if len(problems) > 0 || old == nil {
		return errs
	}
	const why = "cannot change: copies under the former one would be left behind; make another ResourceDistribution"
	if next.Kind != old.Kind {
		errs = append(errs, field.Invalid(ResourcePath().Child("kind"), next.Kind, why))
	}
	if next.Name != old.Name {
		errs = append(errs, field.Invalid(ResourcePath().Child("metadata", "name"), next.Name, why))
	}
	return errs
}

// ValidateTargets returns the problems of targets, found at path.
func ValidateTargets(targets *v1beta1.ResourceDistributionTargets, path *field.Path) field.ErrorList {
	included := sets.New[string]()
	errs := namespaces(targets.IncludedNamespaces.List, path.Child("includedNamespaces", "list"), func(name string) string {
		included.Insert(name)
		return ""
	})
	errs = append(errs, namespaces(targets.ExcludedNamespaces.List, path.Child("excludedNamespaces", "list"), func(name string) string {
		if included.Has(name) {
			return "is included, too: leave out one of both"
		}
		return ""
	})...)
	return append(errs, metav1validation.ValidateLabelSelector(
		&targets.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, path.Child("namespaceSelector"))...)
}

// namespaces judges the names of a list. wrong returns a further problem of a name.
func namespaces(list []v1beta1.ResourceDistributionNamespace, path *field.Path, wrong func(name string) string) (errs field.ErrorList) {
	for i := range list {
		at, name := path.Index(i).Child("name"), list[i].Name
		if name == "" {
			errs = append(errs, field.Required(at, "the name of a namespace"))
			continue
		}
		for _, problem := range apivalidation.ValidateNamespaceName(name, false) {
			errs = append(errs, field.Invalid(at, name, problem))
		}
		if problem := wrong(name); problem != "" {
			errs = append(errs, field.Invalid(at, name, problem))
		}
	}
	return errs
}

// IsSystem reports whether a namespace gets no new copy, whatever the targets.
func IsSystem(namespace string) bool {
	return namespace == metav1.NamespaceSystem || namespace == metav1.NamespacePublic
}
