package sidecarset

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// Options are the facts known beside the objects. The zero value skips the rules about annotations and needs all
// SidecarSets.
type Options struct {
	// Annotations limits the annotations added to Pods by SidecarSets. Nil skips the check.
	Annotations *AnnotationRules
	// OthersUnknown is true if the remaining SidecarSets could not be read: a missing base may exist all the same.
	OthersUnknown bool
}

// ValidateCreate returns the problems of a new, defaulted object beside the remaining SidecarSets of the cluster. The
// API server judges the general rules of containers and volumes.
func ValidateCreate(obj *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, opts Options) field.ErrorList {
	errs := validation.NameUpTo(utilvalidation.DNS1123LabelMaxLength, obj, apivalidation.NameIsDNSLabel)
	errs = append(errs, validate(obj, opts, byIndex)...)
	errs = append(errs, validateBase(obj, others, opts)...)
	return append(errs, conflicts(obj, others, byIndex)...)
}

// ValidateUpdate returns the problems of an update: added or renamed containers, a change of a container's upgrade type
// or of the base, and all problems of [ValidateCreate] except the name. Problems already in stored are left out, even
// after containers, volumes and patches have changed their places.
func ValidateUpdate(obj, stored *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, opts Options) field.ErrorList {
	all := func(obj *v1beta1.SidecarSet, at indexing) field.ErrorList {
		errs := append(validate(obj, opts, at), validateBase(obj, others, opts)...)
		return append(errs, conflicts(obj, others, at)...)
	}
	errs := all(obj, byIndex)
	if len(errs) > 0 {
		errs = fresh(errs, all(obj, byName), all(stored, byName))
	}
	errs = append(errs, validateChange(obj, stored)...)
	base := apps.AnnotationSidecarSetBase
	if obj.Annotations[base] != stored.Annotations[base] {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(base), "cannot change; create another SidecarSet"))
	}
	return errs
}

// indexing makes the path of an element of a list. Reports use the index; comparisons use the name.
type indexing func(list *field.Path, i int, name string) *field.Path

func byIndex(list *field.Path, i int, _ string) *field.Path   { return list.Index(i) }
func byName(list *field.Path, _ int, name string) *field.Path { return list.Key(name) }

// fresh returns the errors missing in before. named are the same errors by name.
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

func specPath() *field.Path { return field.NewPath("spec") }

// validate checks an object by itself.
func validate(obj *v1beta1.SidecarSet, opts Options, at indexing) field.ErrorList {
	spec, path := &obj.Spec, specPath()
	errs := selects(spec, path)
	errs = append(errs, validateContainers(spec, path, at)...)
	errs = append(errs, validateUpdateStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	errs = append(errs, validateRevision(spec.InjectionStrategy.Revision, path.Child("injectionStrategy", "revision"))...)
	errs = append(errs, validatePatches(spec.PatchPodMetadata, path.Child("patchPodMetadata"), at)...)
	errs = append(errs, opts.Annotations.validate(obj, path.Child("patchPodMetadata"), at)...)
	for _, msg := range utilvalidation.IsValidLabelValue(spec.CustomVersion) {
		errs = append(errs, field.Invalid(path.Child("customVersion"), spec.CustomVersion, msg))
	}
	if isCanary(obj) && spec.UpdateStrategy.Type != pub.SidecarSetNotUpdate {
		errs = append(errs, field.Invalid(path.Child("updateStrategy", "type"), spec.UpdateStrategy.Type, "must be NotUpdate: the object stands in for SidecarSet "+
			obj.Annotations[apps.AnnotationSidecarSetBase]))
	}
	return errs
}

func selects(spec *v1beta1.SidecarSetSpec, path *field.Path) field.ErrorList {
	errs := validation.Selects(spec.Selector, path.Child("selector"))
	if spec.NamespaceSelector != nil {
		errs = append(errs, validation.Selects(spec.NamespaceSelector, path.Child("namespaceSelector"))...)
	}
	return errs
}

// validateUpdateStrategy also checks the fields unused with NotUpdate, because the fields choose the revision of new
// Pods. The rules of mutual exclusion are left out then.
func validateUpdateStrategy(strategy *pub.SidecarSetUpdateStrategy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	types := []pub.SidecarSetUpdateStrategyType{pub.SidecarSetNotUpdate, pub.SidecarSetRollingUpdate}
	if !slices.Contains(types, strategy.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), strategy.Type, types))
	}
	errs = append(errs, count(strategy.Partition, path.Child("partition"))...)
	errs = append(errs, count(strategy.MaxUnavailable, path.Child("maxUnavailable"))...)
	if strategy.Selector != nil {
		at := path.Child("selector")
		errs = append(errs, validation.Selects(strategy.Selector, at)...)
		if p := strategy.Partition; strategy.Type != pub.SidecarSetNotUpdate && p != nil && (p.Type == intstr.String || p.IntVal != 0) {
			errs = append(errs, field.Forbidden(at, "excludes a partition; set that to 0"))
		}
	}
	errs = append(errs, validation.Priority(strategy.PriorityStrategy, path.Child("priorityStrategy"))...)
	return append(errs, validation.Scatter(strategy.ScatterStrategy, path.Child("scatterStrategy"))...)
}

// count refuses values that are neither integer nor percentage, and decimals, which OpenKruise cannot read.
func count(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	errs := validation.Count(value, path)
	if len(errs) > 0 || value == nil || value.Type == intstr.Int || len(utilvalidation.IsValidPercent(value.StrVal)) == 0 {
		return errs
	}
	return field.ErrorList{field.Invalid(path, value.StrVal, `has decimals; use an integer of at least 0, or a whole percentage such as "30%"`)}
}

func validateRevision(revision *pub.SidecarSetInjectRevision, path *field.Path) field.ErrorList {
	if revision == nil {
		return nil
	}
	var errs field.ErrorList
	if isNone(revision.RevisionName) && isNone(revision.CustomVersion) {
		errs = append(errs, field.Required(path, "name a revisionName or a customVersion"))
	}
	policies := []pub.SidecarSetInjectRevisionPolicy{pub.InjectRevisionAlways, pub.InjectRevisionPartial}
	if !slices.Contains(policies, revision.Policy) {
		errs = append(errs, field.NotSupported(path.Child("policy"), revision.Policy, policies))
	}
	return errs
}

func isNone(text *string) bool { return text == nil || *text == "" }

// validateChange checks the immutable parts.
func validateChange(obj, stored *v1beta1.SidecarSet) field.ErrorList {
	var errs field.ErrorList
	path := specPath().Child("containers")
	had := map[string][]pub.SidecarUpgradeType{} // several entries for a name stored twice
	for i := range stored.Spec.Containers {
		c := &stored.Spec.Containers[i]
		had[c.Name] = append(had[c.Name], c.UpgradeStrategy.UpgradeType)
	}
	for i := range obj.Spec.Containers {
		c, at := &obj.Spec.Containers[i], path.Index(i)
		switch types := had[c.Name]; {
		case len(types) == 0:
			errs = append(errs, field.Forbidden(at.Child("name"), "container "+c.Name+" is new; updates cannot add or rename containers, create another SidecarSet"))
		case !slices.Contains(types, "") && !slices.Contains(types, c.UpgradeStrategy.UpgradeType):
			errs = append(errs, field.Forbidden(at.Child("upgradeStrategy", "upgradeType"), "cannot change from "+string(types[0])))
		}
	}
	return errs
}

// sourceField matches the possible sources of a container's name.
const sourceField = `^metadata\.(labels|annotations)\['([^']+)'\]$`

func validateSource(source *pub.SourceContainerNameSource, path *field.Path) field.ErrorList {
	if source == nil || source.FieldRef == nil {
		return nil
	}
	return validateFieldRef(source.FieldRef, path.Child("fieldRef"))
}

func validateFieldRef(ref *corev1.ObjectFieldSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ref.APIVersion != "v1" {
		errs = append(errs, field.NotSupported(path.Child("apiVersion"), ref.APIVersion, []string{"v1"}))
	}
	found := regexp.MustCompile(sourceField).FindStringSubmatch(ref.FieldPath)
	if found == nil {
		return append(errs, field.Invalid(path.Child("fieldPath"), ref.FieldPath, "must be metadata.labels['key'] or metadata.annotations['key']"))
	}
	for _, msg := range utilvalidation.IsQualifiedName(found[2]) {
		errs = append(errs, field.Invalid(path.Child("fieldPath"), ref.FieldPath, msg))
	}
	return errs
}
