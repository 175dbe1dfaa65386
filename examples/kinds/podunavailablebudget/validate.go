package podunavailablebudget

import (
	"fmt"
	"slices"
	"strconv"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateAnnotations returns errors for annotations that replace v1alpha1 fields: they must be valid, and the number
// of Pods must equal the field if both are set.
func validateAnnotations(obj *v1beta1.PodUnavailableBudget) (errs field.ErrorList) {
	path := field.NewPath("metadata", "annotations")
	if text, ok := obj.Annotations[policy.AnnotationProtectOperations]; ok && text != "" {
		if v1beta1.OperationsIn(text) == nil {
			errs = append(errs, field.Invalid(path.Key(policy.AnnotationProtectOperations), text,
				fmt.Sprintf("must list operations with commas: %v", v1beta1.Operations())))
		}
	}
	if text, ok := obj.Annotations[policy.AnnotationProtectTotalReplicas]; ok {
		at := path.Key(policy.AnnotationProtectTotalReplicas)
		switch n, err := strconv.ParseInt(text, 10, 32); {
		case err != nil || n < 1:
			errs = append(errs, field.Invalid(at, text, "must be a decimal number of at least 1"))
		case obj.Spec.ProtectTotalReplicas != nil && n != int64(*obj.Spec.ProtectTotalReplicas):
			errs = append(errs, field.Invalid(at, text, "differs from spec.protectTotalReplicas"))
		}
	}
	return errs
}

// validateCreate returns the parsed spec of a new object, and all errors except conflicts with other budgets. The API
// server checks the name.
func validateCreate(obj *v1beta1.PodUnavailableBudget) (*settings, field.ErrorList) {
	s, problems, warnings := resolve(&obj.Spec)
	return s, slices.Concat(validateAnnotations(obj), problems.Refusals(), warnings.Refusals())
}

// validateUpdate returns the errors in an update: all errors of [validateCreate] that stored does not have, and every
// change of the selected Pods. So validateUpdate need not compare the budget with other budgets.
func validateUpdate(obj, stored *v1beta1.PodUnavailableBudget) field.ErrorList {
	_, found := validateCreate(obj)
	_, known := validateCreate(stored)
	errs, path := validation.NewProblems(found, known), field.NewPath("spec")
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, stored.Spec.Selector) {
		errs = append(errs, field.Forbidden(path.Child("selector"), "cannot change; create another budget"))
	}
	if !apiequality.Semantic.DeepEqual(obj.Spec.TargetReference, stored.Spec.TargetReference) {
		errs = append(errs, field.Forbidden(path.Child("targetRef"), "cannot change; create another budget"))
	}
	return errs
}

// conflicts returns the budgets among others that are for the same Pods as obj, whose settings are own: they have the
// same target, or selectors that can match the same Pod. If two selectors use different label keys, a Pod might match
// both by accident, and conflicts accepts this.
func conflicts(obj *v1beta1.PodUnavailableBudget, own *settings, others []v1beta1.PodUnavailableBudget,
) (errs field.ErrorList) {
	path, keys := field.NewPath("spec"), validation.ByKey(own.selector)
	for i := range others {
		other := &others[i]
		if other.Name == obj.Name || other.Namespace != obj.Namespace || other.DeletionTimestamp != nil {
			continue
		}
		of, _, _ := resolve(&other.Spec)
		switch {
		case own.target != nil && of.target != nil && own.target.Is(*of.target):
			errs = append(errs, field.Invalid(path.Child("targetRef"), own.target.Name,
				"is protected by PodUnavailableBudget "+other.Name+" already"))
		case len(keys) > 0 && overlap(keys, validation.ByKey(of.selector)):
			errs = append(errs, field.Invalid(path.Child("selector"), shown(obj.Spec.Selector),
				"selects Pods of PodUnavailableBudget "+other.Name+", too"))
		}
	}
	return errs
}

// overlap reports whether a Pod could match both selectors, provided that both use the same label keys.
func overlap(a, b map[string]labels.Requirements) bool {
	if !sets.KeySet(a).Equal(sets.KeySet(b)) {
		return false
	}
	for key := range a {
		if !validation.CanBe(slices.Concat(a[key], b[key])) {
			return false
		}
	}
	return true
}
