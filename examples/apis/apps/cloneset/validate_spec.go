package cloneset

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

const atLeastZero = "must be at least 0"

// validateSpec refuses what is [Unusable], and what works but is a mistake. Percentages are judged as those of one replica where there is
// none: scaling up later does not come by here.
func validateSpec(obj *v1beta1.CloneSet) field.ErrorList {
	spec, path := &obj.Spec, specPath()
	replicas := max(replicasOf(obj), 1)
	errs := unusable(spec, replicas)
	errs = append(errs, notNegative(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	errs = append(errs, notNegative(&spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, validateProgressDeadline(spec, path.Child("progressDeadlineSeconds"))...)
	errs = append(errs, validateClaims(spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	errs = append(errs, validation.LongRunning(&spec.Template, path.Child("template"))...)
	errs = append(errs, validateReserved(&spec.Template, path.Child("template", "metadata"))...)
	if limit := spec.ScaleStrategy.MaxUnavailable; limit != nil && validation.AsOpenKruise(*limit) != *limit {
		errs = append(errs, validation.Count(limit, path.Child("scaleStrategy", "maxUnavailable"))...)
	}
	return append(errs, validateUpdateStrategy(&spec.UpdateStrategy, replicas, path.Child("updateStrategy"))...)
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
	return append(errs, validateInPlaceStrategy(rolling.InPlaceUpdateStrategy, at.Child("inPlaceUpdateStrategy"))...)
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

// isNone reports whether a count amounts to 0. What is no count is reported elsewhere.
func isNone(value intstr.IntOrString, replicas int32) bool {
	return !validation.AtLeastOne(value, replicas) && len(validation.CountOf(&value, replicas, nil)) == 0
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
