package cloneset

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// Unusable returns every value of the spec impossible for a controller. Controllers call Unusable for any stored
// object, because objects can bypass admission; [ValidateCreate] and [ValidateUpdate] refuse all unusable values and
// more.
//
// The object need not be defaulted. Values stored and read by OpenKruise in its own way, such as a negative
// minReadySeconds, are no problem here: such objects have to go on working after a takeover. Undecodable fields are no
// problem here either; the spec itself lists the fields.
//
// Unusable does not look into lists of more than [apps.MaxTerms], so that its time has a bound. The order of the result
// depends on the object alone, so that a condition with the result does not change from pass to pass.
func Unusable(obj *v1beta1.CloneSet) field.ErrorList {
	return unusable(&obj.Spec, max(replicasOf(obj), 0))
}

// unusable judges percentages as percentages of the given replicas.
func unusable(spec *v1beta1.CloneSetSpec, replicas int32) field.ErrorList {
	path := specPath()
	errs := validation.NotNegative(spec.Replicas, path.Child("replicas"))
	errs = append(errs, validation.Selector(spec.Selector, spec.Template.Labels, apps.ReservedPodLabels(), path)...)
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
	errs = append(errs, validation.Priority(rolling.PriorityStrategy, path.Child("priorityStrategy"))...)
	return append(errs, unusableScatter(rolling.ScatterStrategy, path.Child("scatterStrategy"))...)
}

func unusableScatter(terms []pub.ScatterTerm, path *field.Path) field.ErrorList {
	errs := validation.NotTooMany(len(terms), path)
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
