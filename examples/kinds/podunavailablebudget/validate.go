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

// validateAnnotations validates the annotations that replace fields of v1alpha1. If a field for the number of Pods is
// set too, the annotation must have the same value.
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
// server checks the object's name.
func validateCreate(obj *v1beta1.PodUnavailableBudget) (*settings, field.ErrorList) {
	s, problems, warnings := resolve(&obj.Spec)
	return s, slices.Concat(validateAnnotations(obj), problems.Refusals(), warnings.Refusals())
}

// validateUpdate returns the errors in an update: all errors of [validateCreate] that stored does not have, and an
// error if the target or the selector changes. An update never selects other Pods, and so need not be compared with
// other budgets.
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

// conflicts returns the budgets in others that protect the same Pods as obj: budgets with the same target, or with a
// selector that can match the same Pod. own are the settings of obj. Two selectors with different label keys are no
// conflict, although a Pod could match both selectors.
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

// overlap reports whether a Pod could match both selectors; selectors with different label keys do not overlap.
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
