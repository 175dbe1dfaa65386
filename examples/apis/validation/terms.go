package validation

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// Selector validates the selector of a workload: the selector must not be empty, must select the Pods of the template,
// and must not use the reserved labels, which the controller writes. path is the path of the spec.
func Selector(selector *metav1.LabelSelector, template map[string]string, reserved []string, path *field.Path) field.ErrorList {
	at := path.Child("selector")
	if errs := Selects(selector, at); len(errs) > 0 {
		return errs
	}
	if key := apps.KeyIn(selector, reserved); key != "" {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(selector), "must not ask for "+key+", which the controller writes")}
	}
	matching, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(selector), err.Error())}
	}
	if !matching.Matches(labels.Set(template)) {
		return field.ErrorList{field.Invalid(path.Child("template", "metadata", "labels"), template,
			"must match spec.selector ("+matching.String()+")")}
	}
	return nil
}

// Selects returns errors unless a selector is valid and not empty. The terms of a selector that is too long are not
// validated.
func Selects(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(path, "must select at least one label")}
	}
	if errs := NotTooMany(apps.SelectorTerms(selector), path); len(errs) > 0 {
		return errs
	}
	return LabelSelector(selector, path)
}

// LabelSelector returns errors unless a selector is valid; it may be empty. The order of the errors depends only on the
// selector.
func LabelSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) }) // maps are unordered
	return errs
}

// NotTooMany returns an error if there are more terms than [apps.MaxTerms]; callers then do not validate the terms.
func NotTooMany(n int, path *field.Path) field.ErrorList {
	if n <= apps.MaxTerms {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, apps.MaxTerms)}
}

// Priority validates the terms by which Pods are ordered.
func Priority(priority *pub.PriorityStrategy, path *field.Path) field.ErrorList {
	if priority == nil {
		return nil
	}
	errs := NotTooMany(len(priority.OrderPriority), path.Child("orderPriority"))
	errs = append(errs, NotTooMany(apps.WeightTerms(priority.WeightPriority), path.Child("weightPriority"))...)
	if len(errs) > 0 {
		return errs
	}
	if len(priority.OrderPriority) > 0 && len(priority.WeightPriority) > 0 {
		errs = append(errs, field.Forbidden(path, "orderPriority and weightPriority exclude each other"))
	}
	for i, term := range priority.OrderPriority {
		if term.OrderedKey == "" {
			errs = append(errs, field.Required(path.Child("orderPriority").Index(i).Child("orderedKey"), "name a label"))
		}
	}
	for i := range priority.WeightPriority {
		term, at := &priority.WeightPriority[i], path.Child("weightPriority").Index(i)
		if term.Weight < 0 || term.Weight > 100 {
			errs = append(errs, field.Invalid(at.Child("weight"), term.Weight, "must be from 0 to 100"))
		}
		errs = append(errs, Selects(&term.MatchSelector, at.Child("matchSelector"))...)
	}
	return errs
}

// Scatter validates the terms by which Pods are spread.
func Scatter(terms []pub.ScatterTerm, path *field.Path) field.ErrorList {
	errs := NotTooMany(len(terms), path)
	if len(errs) > 0 {
		return errs
	}
	seen := sets.New[pub.ScatterTerm]()
	for i, term := range terms {
		if term.Key == "" {
			errs = append(errs, field.Required(path.Index(i).Child("key"), "name a label"))
		} else if seen.Has(term) {
			errs = append(errs, field.Duplicate(path.Index(i), term.Key+"="+term.Value))
		}
		seen.Insert(term)
	}
	return errs
}
