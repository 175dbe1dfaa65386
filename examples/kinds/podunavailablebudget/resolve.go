package podunavailablebudget

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// settings are the values of a budget's spec, with compiled selectors.
type settings struct {
	// target is the workload whose Pods the budget protects. If target is nil, the budget protects the Pods that
	// selector selects.
	target *workloads.Ref
	// If there is a target, selector selects no Pods. ignored selects Pods that are not protected.
	selector, ignored labels.Selector
	operations        []v1beta1.Operation
	// total is the number of Pods that should exist. If total is nil, the workloads of the Pods determine the number.
	total  *int32
	bounds disruption.Bounds
}

// resolve parses and validates the spec. Problems are values with which the controller cannot work; the budget then
// protects no Pods. Warnings are values that the controller can use, but that are probably a mistake.
func resolve(spec *v1beta1.PodUnavailableBudgetSpec) (s *settings, problems, warnings judge.Faults) {
	read, path := &judge.Reading{}, field.NewPath("spec")
	s = &settings{
		target: targetOf(spec), selector: labels.Nothing(), ignored: labels.Nothing(),
		operations: spec.ProtectOperations, total: spec.ProtectTotalReplicas,
		bounds: disruption.Bounds{MaxUnavailable: spec.MaxUnavailable, MinAvailable: spec.MinAvailable},
	}
	switch {
	case s.target != nil:
		judgeTarget(read, spec, path.Child("targetRef"))
	case spec.Selector != nil:
		s.selector = selectorOf(read, spec.Selector, path.Child("selector"), read.Refuse)
	default:
		read.Refuse(field.Required(path.Child("selector"), "selector or targetRef is needed"))
	}
	judgeBounds(read, s.bounds, path)
	for i, operation := range s.operations {
		if at := path.Child("protectOperations").Index(i); !slices.Contains(v1beta1.Operations(), operation) {
			read.Warn(field.NotSupported(at, operation, v1beta1.Operations()))
		} else if slices.Contains(s.operations[:i], operation) {
			read.Warn(field.Duplicate(at, operation))
		}
	}
	if s.total != nil && *s.total < 1 {
		read.Warn(field.Invalid(path.Child("protectTotalReplicas"), *s.total, "must be at least 1"))
	}
	if spec.IgnoredPodSelector != nil { // if the selector is invalid, no Pods are ignored
		s.ignored = selectorOf(read, spec.IgnoredPodSelector, path.Child("ignoredPodSelector"), read.Warn)
	}
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		read.Problems, read.Warnings = left, nil // further checks would only report missing values
	}
	if read.Problems != nil {
		s.bounds = disruption.Bounds{MinAvailable: new(intstr.FromInt32(0))}
	}
	return s, read.Problems, read.Warnings
}

// targetOf returns the workload that a spec names; the empty workload if the reference is invalid, and nil if there is
// no reference.
func targetOf(spec *v1beta1.PodUnavailableBudgetSpec) *workloads.Ref {
	target := spec.TargetReference
	if target == nil {
		return nil
	}
	return new(workloads.RefOf(target.APIVersion, target.Kind, target.Name))
}

// judgeTarget validates the reference to the workload, and warns of a selector, which has no effect if there is a
// reference.
func judgeTarget(read *judge.Reading, spec *v1beta1.PodUnavailableBudgetSpec, path *field.Path) {
	if spec.Selector != nil {
		read.Warn(field.Forbidden(path, "excludes selector"))
	}
	target := spec.TargetReference
	for _, part := range [][2]string{{"apiVersion", target.APIVersion}, {"kind", target.Kind}, {"name", target.Name}} {
		if part[1] == "" {
			read.Refuse(field.Required(path.Child(part[0]), ""))
		}
	}
	if _, err := schema.ParseGroupVersion(target.APIVersion); err != nil {
		read.Refuse(field.Invalid(path.Child("apiVersion"), target.APIVersion,
			"must be group/version, or a version of the core group"))
	}
}

// The limits exist because a selector is compared with each Pod of the namespace, and with other budgets. mostTerms is
// the largest number of labels in a selector, and mostValues the largest total number of values in its expressions.
const (
	mostTerms  = 100
	mostValues = 1000
)

// selectorOf compiles a label selector. unusable is called with the errors because of which the selector selects no
// Pods.
func selectorOf(read *judge.Reading, selector *metav1.LabelSelector, path *field.Path,
	unusable func(...*field.Error),
) labels.Selector {
	terms, values := len(selector.MatchLabels)+len(selector.MatchExpressions), 0
	for i := range selector.MatchExpressions {
		values += len(selector.MatchExpressions[i].Values)
	}
	var errs field.ErrorList
	switch {
	case terms == 0:
		errs = field.ErrorList{field.Required(path, "must not be empty: it would match every Pod of the namespace")}
	case terms > mostTerms:
		read.Warn(field.TooMany(path, terms, mostTerms))
	case values > mostValues:
		read.Warn(field.TooMany(path.Child("matchExpressions"), values, mostValues))
	default:
		errs = validation.LabelSelector(selector, path)
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil && len(errs) == 0 {
		errs = field.ErrorList{field.Invalid(path, shown(selector), err.Error())}
	}
	if unusable(errs...); len(errs) > 0 {
		return labels.Nothing()
	}
	return compiled
}

// shown returns a selector as a text of limited length.
func shown(selector *metav1.LabelSelector) string {
	return reason.Shorten(metav1.FormatLabelSelector(selector), 200)
}

// judgeBounds checks that exactly one of maxUnavailable and minAvailable is set, and that the value is a number or a
// percentage.
func judgeBounds(read *judge.Reading, bounds disruption.Bounds, path *field.Path) {
	most, least := bounds.MaxUnavailable, bounds.MinAvailable
	switch {
	case most == nil && least == nil:
		read.Refuse(field.Required(path.Child("maxUnavailable"), "maxUnavailable or minAvailable is needed"))
	case most != nil && least != nil:
		read.Refuse(field.Forbidden(path.Child("minAvailable"), "excludes maxUnavailable"))
	}
	for _, bound := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"maxUnavailable", most}, {"minAvailable", least}} {
		for _, why := range reason.From(partition.Validate("", bound.value)) {
			read.Refuse(field.Invalid(path.Child(bound.name), bound.value.String(), why.Detail+"; "+why.Remedy))
		}
	}
}
