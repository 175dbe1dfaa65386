package cloneset

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateSpec refuses [Unusable] values, and working values that are a mistake. Without replicas, percentages are
// judged for a single replica: a later scale-up is not validated here.
func validateSpec(obj *v1beta1.CloneSet) field.ErrorList {
	spec, path := &obj.Spec, specPath()
	replicas := max(replicasOf(obj), 1)
	errs := unusable(spec, replicas)
	errs = append(errs, validation.NotNegative(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	errs = append(errs, validation.NotNegative(&spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, validateProgressDeadline(spec, path.Child("progressDeadlineSeconds"))...)
	errs = append(errs, validation.ClaimNames(spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	errs = append(errs, validation.LongRunning(&spec.Template, path.Child("template"))...)
	errs = append(errs, validation.Reserved(&spec.Template, apps.ReservedPodLabels(), path.Child("template", "metadata"))...)
	if limit := spec.ScaleStrategy.MaxUnavailable; limit != nil && validation.AsOpenKruise(*limit) != *limit {
		errs = append(errs, validation.Count(limit, path.Child("scaleStrategy", "maxUnavailable"))...)
	}
	return append(errs, validateUpdateStrategy(&spec.UpdateStrategy, replicas, path.Child("updateStrategy"))...)
}

// validateProgressDeadline implements v1alpha1's rule: off, or longer than minReadySeconds.
func validateProgressDeadline(spec *v1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	deadline := spec.ProgressDeadlineSeconds
	if deadline == nil || *deadline == math.MaxInt32 {
		return nil
	}
	if *deadline < 0 {
		return validation.NotNegative(deadline, path)
	}
	if *deadline <= spec.MinReadySeconds {
		return field.ErrorList{field.Invalid(path, *deadline,
			fmt.Sprintf("must be greater than minReadySeconds (%d)", spec.MinReadySeconds))}
	}
	return nil
}

func validateUpdateStrategy(strategy *v1beta1.CloneSetUpdateStrategy, replicas int32, path *field.Path) field.ErrorList {
	rolling, at := strategy.RollingUpdate, path.Child("rollingUpdate")
	var errs field.ErrorList
	switch strategy.Type {
	case "":
		errs = append(errs, field.Required(path.Child("type"), "use RollingUpdate or OnDelete"))
	case v1beta1.OnDelete: // nothing is defaulted here, so everything may be missing
	case v1beta1.RollingUpdate:
		if rolling == nil {
			return field.ErrorList{field.Required(at, "type RollingUpdate needs it")}
		}
		errs = validateBudget(rolling, replicas, at)
	}
	if rolling == nil {
		return errs
	}
	return append(errs, validation.InPlaceStrategy(rolling.InPlaceUpdateStrategy, at.Child("inPlaceUpdateStrategy"))...)
}

// validateBudget refuses a rollout that could never begin.
func validateBudget(rolling *v1beta1.RollingUpdateCloneSet, replicas int32, path *field.Path) field.ErrorList {
	unavailable, surge := rolling.MaxUnavailable, rolling.MaxSurge
	if unavailable == nil || !isNone(*unavailable, replicas) || surge != nil && !isNone(*surge, replicas) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("maxUnavailable"), unavailable.String(),
		"must be at least 1 or 1% when maxSurge is 0")}
}

// isNone reports whether a count amounts to 0. An invalid count is reported elsewhere.
func isNone(value intstr.IntOrString, replicas int32) bool {
	return !validation.AtLeastOne(value, replicas) && len(validation.CountOf(&value, replicas, nil)) == 0
}
