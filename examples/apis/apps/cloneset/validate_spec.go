package cloneset

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

const atLeastZero = "must be at least 0"

func validateSpec(obj *v1beta1.CloneSet) field.ErrorList {
	spec, path := &obj.Spec, specPath()
	errs := notNegative(spec.Replicas, path.Child("replicas"))
	errs = append(errs, notNegative(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	errs = append(errs, notNegative(&spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, validateProgressDeadline(spec, path.Child("progressDeadlineSeconds"))...)
	errs = append(errs, validateSelector(spec, path)...)
	errs = append(errs, validateClaims(spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	errs = append(errs, validation.LongRunning(&spec.Template, path.Child("template"))...)
	errs = append(errs, validateReserved(&spec.Template, path.Child("template", "metadata"))...)
	errs = append(errs, validation.Count(spec.ScaleStrategy.MaxUnavailable, path.Child("scaleStrategy", "maxUnavailable"))...)
	return append(errs, validateUpdateStrategy(obj, path.Child("updateStrategy"))...)
}

// validateReserved refuses what the controller itself writes on Pods: in a template it would have no effect, or would ask for
// the deletion of every Pod.
func validateReserved(template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(values map[string]string, reserved []string, at *field.Path) {
		for _, key := range reserved {
			if value, ok := values[key]; ok {
				errs = append(errs, field.Invalid(at.Key(key), value, "is written by the controller, and must not be in a template"))
			}
		}
	}
	check(template.Labels, apps.ReservedPodLabels(), path.Child("labels"))
	check(template.Annotations, apps.ReservedPodAnnotations(), path.Child("annotations"))
	return errs
}

func notNegative(value *int32, path *field.Path) field.ErrorList {
	if value != nil && *value < 0 {
		return field.ErrorList{field.Invalid(path, *value, atLeastZero)}
	}
	return nil
}

// validateProgressDeadline implements the rule v1alpha1 always had: off, or longer than minReadySeconds.
func validateProgressDeadline(spec *v1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	deadline := spec.ProgressDeadlineSeconds
	if deadline == nil || *deadline == math.MaxInt32 {
		return nil
	}
	if *deadline < 0 {
		return notNegative(deadline, path)
	}
	if *deadline <= spec.MinReadySeconds {
		return field.ErrorList{field.Invalid(path, *deadline,
			fmt.Sprintf("must be greater than minReadySeconds (%d)", spec.MinReadySeconds))}
	}
	return nil
}

// validateSelector checks that the selector selects something and that Pods of the template are among it.
func validateSelector(spec *v1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	at := path.Child("selector")
	if isEmpty(spec.Selector) {
		return field.ErrorList{field.Required(at, "must select at least one label")}
	}
	if errs := notTooMany(apps.SelectorTerms(spec.Selector), at); len(errs) > 0 {
		return errs
	}
	if errs := metav1validation.ValidateLabelSelector(spec.Selector,
		metav1validation.LabelSelectorValidationOptions{}, at); len(errs) > 0 {
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

func isEmpty(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// validateClaims checks the names of the claim templates, which become volumes.
func validateClaims(claims []corev1.PersistentVolumeClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range claims {
		at, name := path.Index(i).Child("metadata", "name"), claims[i].Name
		switch {
		case name == "":
			errs = append(errs, field.Required(at, "volumeMounts refer to claims by name"))
		case names.Has(name):
			errs = append(errs, field.Duplicate(at, name))
		}
		names.Insert(name)
	}
	return errs
}

func validateUpdateStrategy(obj *v1beta1.CloneSet, path *field.Path) field.ErrorList {
	strategy := obj.Spec.UpdateStrategy
	rolling, at := strategy.RollingUpdate, path.Child("rollingUpdate")
	switch strategy.Type {
	case v1beta1.OnDelete:
		// Nothing is defaulted here, so everything may be missing.
		if rolling == nil {
			return nil
		}
		return validateRollingUpdate(rolling, at)
	case v1beta1.RollingUpdate:
		if rolling == nil {
			return field.ErrorList{field.Required(at, "type RollingUpdate needs it")}
		}
		return append(validateRollingUpdate(rolling, at), validateBudget(rolling, replicasOf(obj), at)...)
	default:
		return field.ErrorList{field.NotSupported(path.Child("type"), strategy.Type,
			[]v1beta1.CloneSetUpdateStrategyType{v1beta1.RollingUpdate, v1beta1.OnDelete})}
	}
}

func validateRollingUpdate(rolling *v1beta1.RollingUpdateCloneSet, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch rolling.PodUpdatePolicy {
	case "", v1beta1.ReCreate, v1beta1.InPlaceIfPossible:
	case v1beta1.InPlaceOnly:
		if surge := rolling.MaxSurge; surge != nil && validation.AtLeastOne(*surge, 1) {
			errs = append(errs, field.Invalid(path.Child("maxSurge"), surge.String(), "must be 0 with InPlaceOnly"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("podUpdatePolicy"), rolling.PodUpdatePolicy,
			[]v1beta1.CloneSetPodUpdatePolicy{v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly}))
	}
	errs = append(errs, validation.Count(rolling.Partition, path.Child("partition"))...)
	errs = append(errs, validation.Count(rolling.MaxUnavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, validation.Count(rolling.MaxSurge, path.Child("maxSurge"))...)
	errs = append(errs, validatePriority(rolling.PriorityStrategy, path.Child("priorityStrategy"))...)
	errs = append(errs, validateScatter(rolling.ScatterStrategy, path.Child("scatterStrategy"))...)
	return append(errs, validateInPlaceStrategy(rolling.InPlaceUpdateStrategy, path.Child("inPlaceUpdateStrategy"))...)
}

// validateBudget refuses a rollout that could never begin. Values that are no counts are reported elsewhere. Without replicas it is
// judged as with one: scaling up later does not come by here.
func validateBudget(rolling *v1beta1.RollingUpdateCloneSet, replicas int32, path *field.Path) field.ErrorList {
	unavailable := rolling.MaxUnavailable
	replicas = max(replicas, 1)
	if unavailable == nil || validation.AtLeastOne(*unavailable, replicas) ||
		len(validation.Count(unavailable, path)) > 0 {
		return nil
	}
	if surge := rolling.MaxSurge; surge != nil &&
		(validation.AtLeastOne(*surge, replicas) || len(validation.Count(surge, path)) > 0) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("maxUnavailable"), unavailable.String(),
		"must be at least 1 or 1% when maxSurge is 0")}
}

// notTooMany refuses more terms than are looked at; what is in them is not either.
func notTooMany(n int, path *field.Path) field.ErrorList {
	if n <= apps.MaxTerms {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, apps.MaxTerms)}
}

// validatePriority checks the terms that order Pods.
func validatePriority(priority *pub.PriorityStrategy, path *field.Path) field.ErrorList {
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
		if isEmpty(&term.MatchSelector) {
			errs = append(errs, field.Required(at.Child("matchSelector"), "must select at least one label"))
		}
		errs = append(errs, metav1validation.ValidateLabelSelector(&term.MatchSelector,
			metav1validation.LabelSelectorValidationOptions{}, at.Child("matchSelector"))...)
	}
	return errs
}

func validateScatter(terms []pub.ScatterTerm, path *field.Path) field.ErrorList {
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

// validateInPlaceStrategy checks grace period and parallelism. A parallelism in quotes counts as the integer it spells.
func validateInPlaceStrategy(strategy *pub.InPlaceUpdateStrategy, path *field.Path) field.ErrorList {
	if strategy == nil {
		return nil
	}
	errs := notNegative(&strategy.GracePeriodSeconds, path.Child("gracePeriodSeconds"))
	errs = append(errs, notNegative(strategy.ImagePreDownloadTimeoutSeconds, path.Child("imagePreDownloadTimeoutSeconds"))...)
	errs = append(errs, notNegative(strategy.ImagePreDownloadMinUpdatedReadyPods,
		path.Child("imagePreDownloadMinUpdatedReadyPods"))...)
	if parallelism := strategy.ImagePreDownloadParallelism; parallelism != nil {
		number := int64(parallelism.IntVal)
		var err error
		if parallelism.Type == intstr.String {
			number, err = strconv.ParseInt(parallelism.StrVal, 10, 32)
		}
		if err != nil || number < 0 {
			errs = append(errs, field.Invalid(path.Child("imagePreDownloadParallelism"), parallelism.String(),
				"must be an integer of at least 0; percentages are not allowed"))
		}
	}
	return errs
}
