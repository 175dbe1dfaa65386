package cloneset

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
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// Unusable returns every value of the spec that a controller cannot work with. Controllers ask it of whatever is stored, because objects
// come past admission too; [ValidateCreate] and [ValidateUpdate] refuse all of this and more.
//
// The object need not be defaulted. What OpenKruise stores and reads in its own way, such as a negative minReadySeconds, is no problem
// here: it has to go on working when somebody else takes over. Nor are fields that could not be decoded; the spec tells of them itself.
//
// Lists of more than [apps.MaxTerms] are not looked into, so that the time this takes has a bound. The order of what is returned depends on
// the object alone, so that a condition that shows it does not change from pass to pass.
func Unusable(obj *v1beta1.CloneSet) field.ErrorList {
	return unusable(&obj.Spec, max(replicasOf(obj), 0))
}

// unusable judges percentages as those of so many replicas.
func unusable(spec *v1beta1.CloneSetSpec, replicas int32) field.ErrorList {
	path := specPath()
	errs := notNegative(spec.Replicas, path.Child("replicas"))
	errs = append(errs, unusableSelector(spec, path)...)
	if limit := spec.ScaleStrategy.MaxUnavailable; limit != nil {
		read := validation.AsOpenKruise(*limit)
		errs = append(errs, validation.CountOf(&read, replicas, path.Child("scaleStrategy", "maxUnavailable"))...)
	}
	at := path.Child("updateStrategy")
	switch kind := spec.UpdateStrategy.Type; kind {
	case "", v1beta1.RollingUpdate, v1beta1.OnDelete:
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), kind,
			[]v1beta1.CloneSetUpdateStrategyType{v1beta1.RollingUpdate, v1beta1.OnDelete}))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		errs = append(errs, unusableRolling(rolling, replicas, at.Child("rollingUpdate"))...)
	}
	return errs
}

// unusableSelector checks that the selector selects something and that Pods of the template are among it.
func unusableSelector(spec *v1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	at := path.Child("selector")
	if errs := notTooMany(apps.SelectorTerms(spec.Selector), at); len(errs) > 0 {
		return errs
	}
	if errs := selects(spec.Selector, at); len(errs) > 0 {
		return errs
	}
	if key := apps.ReservedKeyIn(spec.Selector); key != "" {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(spec.Selector), "must not ask for "+key+", which the controller writes")}
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(spec.Selector), err.Error())}
	}
	if !selector.Matches(labels.Set(spec.Template.Labels)) {
		return field.ErrorList{field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels,
			"must match spec.selector ("+selector.String()+")")}
	}
	return nil
}

// selects checks that a selector is well-formed and selects by something.
func selects(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(path, "must select at least one label")}
	}
	errs := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) }) // labels are a map
	return errs
}

func unusableRolling(rolling *v1beta1.RollingUpdateCloneSet, replicas int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch rolling.PodUpdatePolicy {
	case "", v1beta1.ReCreate, v1beta1.InPlaceIfPossible:
	case v1beta1.InPlaceOnly:
		if surge := rolling.MaxSurge; surge != nil && validation.AtLeastOne(*surge, replicas) {
			errs = append(errs, field.Invalid(path.Child("maxSurge"), surge.String(), "must be 0 with InPlaceOnly, which never replaces a Pod"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("podUpdatePolicy"), rolling.PodUpdatePolicy,
			[]v1beta1.CloneSetPodUpdatePolicy{v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly}))
	}
	errs = append(errs, validation.CountOf(rolling.Partition, replicas, path.Child("partition"))...)
	errs = append(errs, validation.CountOf(rolling.MaxUnavailable, replicas, path.Child("maxUnavailable"))...)
	errs = append(errs, validation.CountOf(rolling.MaxSurge, replicas, path.Child("maxSurge"))...)
	errs = append(errs, unusablePriority(rolling.PriorityStrategy, path.Child("priorityStrategy"))...)
	return append(errs, unusableScatter(rolling.ScatterStrategy, path.Child("scatterStrategy"))...)
}

// notTooMany refuses more terms than are looked at; what is in them is not either.
func notTooMany(n int, path *field.Path) field.ErrorList {
	if n <= apps.MaxTerms {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, apps.MaxTerms)}
}

// unusablePriority checks the terms that order Pods.
func unusablePriority(priority *pub.PriorityStrategy, path *field.Path) field.ErrorList {
	if priority == nil {
		return nil
	}
	errs := notTooMany(len(priority.OrderPriority), path.Child("orderPriority"))
	errs = append(errs, notTooMany(apps.WeightTerms(priority.WeightPriority), path.Child("weightPriority"))...)
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
		errs = append(errs, selects(&term.MatchSelector, at.Child("matchSelector"))...)
	}
	return errs
}

func unusableScatter(terms []pub.ScatterTerm, path *field.Path) field.ErrorList {
	errs := notTooMany(len(terms), path)
	if len(errs) > 0 {
		return errs
	}
	seen := sets.New[pub.ScatterTerm]()
	for i, term := range terms {
		if term.Key == "" {
			errs = append(errs, field.Required(path.Index(i).Child("key"), "name a label"))
		}
		if seen.Has(term) {
			errs = append(errs, field.Duplicate(path.Index(i), term.Key+"="+term.Value))
		}
		seen.Insert(term)
	}
	return errs
}
