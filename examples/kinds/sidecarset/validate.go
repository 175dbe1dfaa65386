package sidecarset

import (
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateOptions are inputs of the validation in addition to the SidecarSets. The zero value skips the rules about
// annotations, and means that all other SidecarSets are known.
type validateOptions struct {
	// annotations says which annotations SidecarSets may add to Pods. If annotations is nil, the check is skipped.
	annotations *annotationRules
	// othersUnknown is true if the other SidecarSets could not be read. A canary (a SidecarSet that replaces another
	// SidecarSet, its base, for some Pods) is then accepted even if the base is not found.
	othersUnknown bool
}

// validateCreate returns the errors in a new object with defaults, given the other SidecarSets of the cluster. The API
// server checks the general rules for containers and volumes.
func validateCreate(obj *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, opts validateOptions) field.ErrorList {
	errs := validation.NameUpTo(utilvalidation.DNS1123LabelMaxLength, obj, apivalidation.NameIsDNSLabel)
	return append(errs, validate(obj, others, opts, byIndex)...)
}

// validateUpdate returns the errors in an update: added or renamed containers, a changed upgrade type of a container, a
// changed base, and all errors of [validateCreate] except about the name. Errors that stored has too are left out, even
// if containers, volumes and patches have moved within their lists.
func validateUpdate(obj, stored *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, opts validateOptions,
) field.ErrorList {
	errs := validate(obj, others, opts, byIndex)
	if len(errs) > 0 {
		errs = fresh(errs, validate(obj, others, opts, byName), validate(stored, others, opts, byName))
	}
	errs = append(errs, validateChange(obj, stored)...)
	base := apps.AnnotationSidecarSetBase
	if obj.Annotations[base] != stored.Annotations[base] {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(base),
			"cannot change; create another SidecarSet"))
	}
	return errs
}

// validate returns the errors in the spec, and conflicts with other SidecarSets.
func validate(obj *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, opts validateOptions, at indexing,
) field.ErrorList {
	_, problems, warnings := resolve(obj, at)
	return slices.Concat(problems.Refusals(), warnings.Refusals(), opts.annotations.validate(obj, at),
		validateBase(obj, others, opts), conflicts(obj, others, at))
}

// indexing returns the path of a list element. Errors shown to users contain the index of the element; errors to be
// compared contain its name.
type indexing func(list *field.Path, i int, name string) *field.Path

func byIndex(list *field.Path, i int, _ string) *field.Path   { return list.Index(i) }
func byName(list *field.Path, _ int, name string) *field.Path { return list.Key(name) }

// fresh returns the errors in errs that the stored object, with the errors in before, does not have. named are the
// errors in errs, with names instead of indexes in the paths.
func fresh(errs, named, before field.ErrorList) field.ErrorList {
	known := map[string]bool{}
	for _, err := range before {
		known[err.Error()] = true
	}
	var out field.ErrorList
	for i, err := range errs {
		if !known[named[i].Error()] {
			out = append(out, err)
		}
	}
	return out
}

// validateChange returns errors for changes of immutable fields.
func validateChange(obj, stored *v1beta1.SidecarSet) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "containers")
	had := map[string][]pub.SidecarUpgradeType{} // objects stored without admission may contain a name more than once
	for i := range stored.Spec.Containers {
		c := &stored.Spec.Containers[i]
		had[c.Name] = append(had[c.Name], c.UpgradeStrategy.UpgradeType)
	}
	for i := range obj.Spec.Containers {
		c, at := &obj.Spec.Containers[i], path.Index(i)
		switch types := had[c.Name]; {
		case len(types) == 0:
			errs = append(errs, field.Forbidden(at.Child("name"), "container "+c.Name+
				" is new; updates cannot add or rename containers, create another SidecarSet"))
		case !slices.Contains(types, "") && !slices.Contains(types, c.UpgradeStrategy.UpgradeType):
			errs = append(errs, field.Forbidden(at.Child("upgradeStrategy", "upgradeType"),
				"cannot change from "+string(types[0])))
		}
	}
	return errs
}
