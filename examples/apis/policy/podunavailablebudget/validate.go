// Package podunavailablebudget answers "is this PodUnavailableBudget one that can be kept?"
package podunavailablebudget

import (
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/reason"
)

// Operations are all that a budget can be asked about.
func Operations() []v1beta1.Operation {
	return []v1beta1.Operation{v1beta1.OperationDelete, v1beta1.OperationUpdate, v1beta1.OperationEvict, v1beta1.OperationResize}
}

// ValidateCreate returns what is wrong with a new object beside the others of its namespace. The name is for the API server to judge.
func ValidateCreate(obj *v1beta1.PodUnavailableBudget, others []*v1beta1.PodUnavailableBudget) field.ErrorList {
	return append(validateSpec(&obj.Spec, field.NewPath("spec")), conflicts(obj, others)...)
}

// ValidateUpdate returns what is wrong with an update: all of [ValidateCreate] that stored has not already, and that which Pods are
// protected cannot change.
func ValidateUpdate(obj, stored *v1beta1.PodUnavailableBudget, others []*v1beta1.PodUnavailableBudget) field.ErrorList {
	known := map[string]bool{}
	for _, err := range ValidateCreate(stored, others) {
		known[err.Error()] = true
	}
	errs := slices.DeleteFunc(ValidateCreate(obj, others), func(err *field.Error) bool { return known[err.Error()] })
	path := field.NewPath("spec")
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, stored.Spec.Selector) {
		errs = append(errs, field.Forbidden(path.Child("selector"), "cannot change; create another budget"))
	}
	if !apiequality.Semantic.DeepEqual(obj.Spec.TargetReference, stored.Spec.TargetReference) {
		errs = append(errs, field.Forbidden(path.Child("targetRef"), "cannot change; create another budget"))
	}
	return errs
}

func validateSpec(spec *v1beta1.PodUnavailableBudgetSpec, path *field.Path) field.ErrorList {
	errs := validatePods(spec, path)
	errs = append(errs, validateBounds(spec, path)...)
	for i, operation := range spec.ProtectOperations {
		if at := path.Child("protectOperations").Index(i); !slices.Contains(Operations(), operation) {
			errs = append(errs, field.NotSupported(at, operation, Operations()))
		} else if slices.Contains(spec.ProtectOperations[:i], operation) {
			errs = append(errs, field.Duplicate(at, operation))
		}
	}
	if n := spec.ProtectTotalReplicas; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(path.Child("protectTotalReplicas"), *n, "must be at least 1"))
	}
	if spec.IgnoredPodSelector != nil {
		errs = append(errs, validateSelector(spec.IgnoredPodSelector, path.Child("ignoredPodSelector"))...)
	}
	return errs
}

// validatePods: Pods are selected by labels or by their workload.
func validatePods(spec *v1beta1.PodUnavailableBudgetSpec, path *field.Path) (errs field.ErrorList) {
	target := spec.TargetReference
	switch {
	case spec.Selector == nil && target == nil:
		return field.ErrorList{field.Required(path.Child("selector"), "selector or targetRef is needed")}
	case spec.Selector != nil && target != nil:
		return field.ErrorList{field.Forbidden(path.Child("targetRef"), "excludes selector")}
	case spec.Selector != nil:
		return validateSelector(spec.Selector, path.Child("selector"))
	}
	path = path.Child("targetRef")
	for _, part := range []struct{ name, value string }{{"apiVersion", target.APIVersion}, {"kind", target.Kind}, {"name", target.Name}} {
		if part.value == "" {
			errs = append(errs, field.Required(path.Child(part.name), ""))
		}
	}
	if _, err := schema.ParseGroupVersion(target.APIVersion); err != nil {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), target.APIVersion, "must be group/version, or a version of the core group"))
	}
	return errs
}

func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(path, "must not be empty: it would match every Pod of the namespace")}
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

// validateBounds: exactly one of the two.
func validateBounds(spec *v1beta1.PodUnavailableBudgetSpec, path *field.Path) (errs field.ErrorList) {
	most, least := spec.MaxUnavailable, spec.MinAvailable
	switch {
	case most == nil && least == nil:
		return field.ErrorList{field.Required(path.Child("maxUnavailable"), "maxUnavailable or minAvailable is needed")}
	case most != nil && least != nil:
		errs = append(errs, field.Forbidden(path.Child("minAvailable"), "excludes maxUnavailable"))
	}
	for _, bound := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"maxUnavailable", most}, {"minAvailable", least}} {
		for _, why := range reason.From(partition.Validate("", bound.value)) {
			errs = append(errs, field.Invalid(path.Child(bound.name), bound.value.String(), why.Detail+"; "+why.Remedy))
		}
	}
	return errs
}

// conflicts returns which others protect Pods that this one is for: the same workload, or labels that a Pod could have for both. Where labels of
// different keys are selected, a Pod may match both without anybody having meant it, and that is let pass.
func conflicts(obj *v1beta1.PodUnavailableBudget, others []*v1beta1.PodUnavailableBudget) (errs field.ErrorList) {
	path := field.NewPath("spec")
	for _, other := range others {
		if other.Name == obj.Name || other.Namespace != obj.Namespace || other.DeletionTimestamp != nil {
			continue
		}
		switch {
		case isSameTarget(obj.Spec.TargetReference, other.Spec.TargetReference):
			errs = append(errs, field.Invalid(path.Child("targetRef"), obj.Spec.TargetReference.Name, fmt.Sprintf("is protected by PodUnavailableBudget %s already", other.Name)))
		case overlap(obj.Spec.Selector, other.Spec.Selector):
			errs = append(errs, field.Invalid(path.Child("selector"), metav1.FormatLabelSelector(obj.Spec.Selector), fmt.Sprintf("selects Pods of PodUnavailableBudget %s, too", other.Name)))
		}
	}
	return errs
}

// isSameTarget compares workloads without the versions of their groups.
func isSameTarget(a, b *v1beta1.TargetReference) bool {
	if a == nil || b == nil || a.Kind != b.Kind || a.Name != b.Name {
		return false
	}
	ga, errA := schema.ParseGroupVersion(a.APIVersion)
	gb, errB := schema.ParseGroupVersion(b.APIVersion)
	return errA == nil && errB == nil && ga.Group == gb.Group
}

// overlap reports whether a Pod could have labels for both selectors, if they look at the same keys.
func overlap(a, b *metav1.LabelSelector) bool {
	ra, rb := requirements(a), requirements(b)
	if len(ra) == 0 || len(rb) == 0 || !sets.KeySet(ra).Equal(sets.KeySet(rb)) {
		return false
	}
	for key := range ra {
		if !meet(append(slices.Clone(ra[key]), rb[key]...)) {
			return false
		}
	}
	return true
}

// requirements returns those of a selector by their keys; none of one that makes no sense.
func requirements(selector *metav1.LabelSelector) map[string][]labels.Requirement {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	list, _ := compiled.Requirements()
	out := map[string][]labels.Requirement{}
	for _, r := range list {
		out[r.Key()] = append(out[r.Key()], r)
	}
	return out
}

// meet reports whether a label could fulfil all requirements of one key: with one of the values that they name, another one, or by its
// absence.
func meet(requirements []labels.Requirement) bool {
	key := requirements[0].Key()
	candidates := sets.New[string]()
	for _, r := range requirements {
		candidates.Insert(r.ValuesUnsorted()...)
	}
	other := "x"
	for candidates.Has(other) {
		other += "x"
	}
	tries := []labels.Set{{key: other}, {}}
	for value := range candidates {
		tries = append(tries, labels.Set{key: value})
	}
	return slices.ContainsFunc(tries, func(try labels.Set) bool {
		return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return !r.Matches(try) })
	})
}
