// Package podunavailablebudget answers "can this PodUnavailableBudget be kept?"
package podunavailablebudget

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// Operations returns all operations for a budget to cover.
func Operations() []v1beta1.Operation {
	return []v1beta1.Operation{v1beta1.OperationDelete, v1beta1.OperationUpdate, v1beta1.OperationEvict, v1beta1.OperationResize}
}

// OperationsIn returns the operations listed by a text with commas, or nil if an operation is unknown.
func OperationsIn(text string) (list []v1beta1.Operation) {
	for word := range strings.SplitSeq(text, ",") {
		operation := v1beta1.Operation(strings.TrimSpace(word))
		if !slices.Contains(Operations(), operation) {
			return nil
		}
		list = append(list, operation)
	}
	return list
}

// validateAnnotations: annotations in place of v1alpha1 fields must be valid, and the number of Pods must equal the
// field if both exist.
func validateAnnotations(obj *v1beta1.PodUnavailableBudget) (errs field.ErrorList) {
	path := field.NewPath("metadata", "annotations")
	if text, ok := obj.Annotations[policy.AnnotationProtectOperations]; ok && text != "" {
		if OperationsIn(text) == nil {
			errs = append(errs, field.Invalid(path.Key(policy.AnnotationProtectOperations), text, fmt.Sprintf("must list operations with commas: %v", Operations())))
		}
	}
	if text, ok := obj.Annotations[policy.AnnotationProtectTotalReplicas]; ok {
		switch n, err := strconv.ParseInt(text, 10, 32); {
		case err != nil || n < 1:
			errs = append(errs, field.Invalid(path.Key(policy.AnnotationProtectTotalReplicas), text, "must be a decimal number of at least 1"))
		case obj.Spec.ProtectTotalReplicas != nil && n != int64(*obj.Spec.ProtectTotalReplicas):
			errs = append(errs, field.Invalid(path.Key(policy.AnnotationProtectTotalReplicas), text, "differs from spec.protectTotalReplicas"))
		}
	}
	return errs
}

// ValidateCreate returns the problems of a new object beside the further budgets of its namespace. The API server
// judges the name.
func ValidateCreate(obj *v1beta1.PodUnavailableBudget, others []*v1beta1.PodUnavailableBudget) field.ErrorList {
	return slices.Concat(validateAnnotations(obj), validateSpec(&obj.Spec, field.NewPath("spec")), conflicts(obj, others))
}

// ValidateUpdate returns the problems of an update: all problems of [ValidateCreate] missing in stored, and every
// change of the selected Pods. So ValidateUpdate need not look at further budgets of the namespace.
func ValidateUpdate(obj, stored *v1beta1.PodUnavailableBudget) field.ErrorList {
	known := map[string]bool{}
	for _, err := range ValidateCreate(stored, nil) {
		known[err.Error()] = true
	}
	errs := slices.DeleteFunc(ValidateCreate(obj, nil), func(err *field.Error) bool { return known[err.Error()] })
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
	values := 0
	for i := range selector.MatchExpressions {
		values += len(selector.MatchExpressions[i].Values)
	}
	if n := len(selector.MatchLabels) + len(selector.MatchExpressions); n > MaxTerms {
		return field.ErrorList{field.TooMany(path, n, MaxTerms)}
	}
	if values > MaxValues {
		return field.ErrorList{field.TooMany(path.Child("matchExpressions"), values, MaxValues)}
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

// A selector is compared with each Pod of its namespace, and with the namespace's budgets. MaxTerms bounds the labels
// in a selector, and MaxValues the values in its expressions together.
const (
	MaxTerms  = 100
	MaxValues = 1000
)

// validateBounds: exactly a single bound is set.
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

// conflicts returns the budgets among others for the same Pods as obj: with the same target, or with labels possible on
// a common Pod. If the selectors use different keys, a Pod may match both by accident, and conflicts lets such
// selectors pass.
func conflicts(obj *v1beta1.PodUnavailableBudget, others []*v1beta1.PodUnavailableBudget) (errs field.ErrorList) {
	path, own := field.NewPath("spec"), termsOf(obj.Spec.Selector)
	for _, other := range others {
		if other.Name == obj.Name || other.Namespace != obj.Namespace || other.DeletionTimestamp != nil {
			continue
		}
		switch {
		case isSameTarget(obj.Spec.TargetReference, other.Spec.TargetReference):
			errs = append(errs, field.Invalid(path.Child("targetRef"), obj.Spec.TargetReference.Name, fmt.Sprintf("is protected by PodUnavailableBudget %s already", other.Name)))
		case len(own) > 0 && overlap(own, termsOf(other.Spec.Selector)):
			errs = append(errs, field.Invalid(path.Child("selector"), reason.Shorten(metav1.FormatLabelSelector(obj.Spec.Selector), longest), fmt.Sprintf("selects Pods of PodUnavailableBudget %s, too", other.Name)))
		}
	}
	return errs
}

// longest is how much of a selector is shown, in bytes.
const longest = 200

// isSameTarget compares workloads without the versions of their groups.
func isSameTarget(a, b *v1beta1.TargetReference) bool {
	if a == nil || b == nil || a.Kind != b.Kind || a.Name != b.Name {
		return false
	}
	ga, errA := schema.ParseGroupVersion(a.APIVersion)
	gb, errB := schema.ParseGroupVersion(b.APIVersion)
	return errA == nil && errB == nil && ga.Group == gb.Group
}

// overlap reports whether a Pod could have labels for both selectors, if both use the same keys.
func overlap(a, b map[string]term) bool {
	if !sets.KeySet(a).Equal(sets.KeySet(b)) {
		return false
	}
	for key, of := range a {
		if !of.and(b[key]).canBe() {
			return false
		}
	}
	return true
}

// term is a selector's demand on the label of a key.
type term struct {
	exists, absent bool
	in             sets.Set[string] // nil for any value
	notIn          sets.Set[string]
}

// termsOf returns the terms of a selector by key, or nil for an invalid selector.
func termsOf(selector *metav1.LabelSelector) map[string]term {
	if _, err := metav1.LabelSelectorAsSelector(selector); selector == nil || err != nil {
		return nil
	}
	out := map[string]term{}
	for key, value := range selector.MatchLabels {
		out[key] = out[key].and(term{exists: true, in: sets.New(value)})
	}
	for i := range selector.MatchExpressions {
		e := &selector.MatchExpressions[i]
		var one term
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			one = term{exists: true, in: sets.New(e.Values...)}
		case metav1.LabelSelectorOpNotIn:
			one = term{notIn: sets.New(e.Values...)}
		case metav1.LabelSelectorOpExists:
			one = term{exists: true}
		case metav1.LabelSelectorOpDoesNotExist:
			one = term{absent: true}
		}
		out[e.Key] = out[e.Key].and(one)
	}
	return out
}

// and returns the conjunction of both terms.
func (t term) and(other term) term {
	out := term{exists: t.exists || other.exists, absent: t.absent || other.absent, in: t.in, notIn: t.notIn.Union(other.notIn)}
	switch {
	case t.in == nil:
		out.in = other.in
	case other.in != nil:
		out.in = t.in.Intersection(other.in)
	}
	return out
}

// canBe reports whether a label could satisfy the term: with a value, or by absence.
func (t term) canBe() bool {
	switch {
	case t.absent:
		return !t.exists
	case t.in == nil:
		return true // some value is named by nobody
	}
	return t.in.Difference(t.notIn).Len() > 0
}
