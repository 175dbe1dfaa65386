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

// Selector checks the selector of a workload: the selector is not empty, selects Pods of the template, and asks for
// none of the reserved labels written by the controller. path is the path of the spec.
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

// Selects checks for a well-formed and non-empty selector. The contents of a selector that is too long are not
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

// LabelSelector checks for a well-formed selector, empty or not. The order of the result depends on the selector alone.
func LabelSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) }) // labels are a map
	return errs
}

// NotTooMany refuses more terms than the controller reads; further terms are not checked either.
func NotTooMany(n int, path *field.Path) field.ErrorList {
	if n <= apps.MaxTerms {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, apps.MaxTerms)}
}

// Priority checks the terms for ordering Pods.
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

// Scatter checks the terms for spreading Pods.
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
