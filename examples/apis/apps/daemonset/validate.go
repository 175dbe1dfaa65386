package daemonset

import (
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// maxName is the longest name, in characters: with a dash and a hash of up to 10 the name becomes the name of a
// revision. Pods have the hash alone in a label.
const maxName = utilvalidation.DNS1123SubdomainMaxLength - 1 - 10

// ValidateCreate returns the problems of a new, defaulted object.
func ValidateCreate(obj *v1beta1.DaemonSet) field.ErrorList {
	return append(validation.NameUpTo(maxName, obj, apivalidation.NameIsDNSSubdomain), validateSpec(&obj.Spec, Unusable(obj))...)
}

// ValidateUpdate returns the problems of an update: a changed selector, and all problems of [ValidateCreate] except the
// name. Problems of spec already in old, in the same place with the same value, are left out.
func ValidateUpdate(obj, old *v1beta1.DaemonSet) field.ErrorList {
	errs := validation.NewProblems(validateSpec(&obj.Spec, Unusable(obj)), validateSpec(&old.Spec, Unusable(old)))
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, field.Forbidden(specPath(), "selector cannot change; updates may change only template, scaleStrategy, "+
			"updateStrategy, lifecycle, burstReplicas, minReadySeconds and revisionHistoryLimit"))
	}
	return errs
}

// ValidateV1alpha1 returns the problems hidden by conversion to v1beta1: the type Surging becomes Standard, with a
// maxUnavailable of 0. old is nil on creation. Problems already in old are accepted.
func ValidateV1alpha1(obj, old *v1alpha1.DaemonSet) field.ErrorList {
	errs := surging(obj)
	if old != nil {
		errs = validation.NewProblems(errs, surging(old))
	}
	return errs
}

func surging(obj *v1alpha1.DaemonSet) field.ErrorList {
	strategy := &obj.Spec.UpdateStrategy
	rolling := strategy.RollingUpdate
	if strategy.Type == v1beta1.OnDeleteDaemonSetStrategyType || rolling == nil ||
		rolling.RollingUpdateType != v1alpha1.SurgingRollingUpdateType || isNone(rolling.MaxUnavailable) {
		return nil
	}
	return field.ErrorList{field.Invalid(specPath().Child("updateStrategy", "rollingUpdate", "maxUnavailable"), rolling.MaxUnavailable.String(),
		"must be 0 with Surging; use Standard")}
}

func specPath() *field.Path { return field.NewPath("spec") }

// validateSpec adds working mistakes to the [Unusable] values.
func validateSpec(spec *v1beta1.DaemonSetSpec, errs field.ErrorList) field.ErrorList {
	path := specPath()
	errs = append(errs, validation.NotNegative(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	errs = append(errs, validation.NotNegative(&spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, wholePercent(spec.BurstReplicas, path.Child("burstReplicas"))...)
	errs = append(errs, validateLifecycle(spec.Lifecycle, path.Child("lifecycle"))...)
	errs = append(errs, validation.LongRunning(&spec.Template, path.Child("template"))...)
	errs = append(errs, validation.Reserved(&spec.Template, apps.ReservedDaemonSetLabels(), path.Child("template", "metadata"))...)
	return append(errs, validateUpdateStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
}

// validateLifecycle refuses hooks never asked: an update in place does not wait, and a new Pod counts at once.
func validateLifecycle(lifecycle *pub.Lifecycle, path *field.Path) field.ErrorList {
	if lifecycle == nil {
		return nil
	}
	var errs field.ErrorList
	if lifecycle.InPlaceUpdate != nil {
		errs = append(errs, field.Forbidden(path.Child("inPlaceUpdate"), "a DaemonSet has the hook preDelete alone"))
	}
	if lifecycle.PreNormal != nil {
		errs = append(errs, field.Forbidden(path.Child("preNormal"), "a DaemonSet has the hook preDelete alone"))
	}
	return errs
}

func validateUpdateStrategy(strategy *v1beta1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	rolling, at := strategy.RollingUpdate, path.Child("rollingUpdate")
	switch {
	case strategy.Type == "":
		return field.ErrorList{field.Required(path.Child("type"), "use RollingUpdate or OnDelete")}
	case strategy.Type != v1beta1.RollingUpdateDaemonSetStrategyType:
		return nil // no defaults, and nothing is read
	case rolling == nil:
		return field.ErrorList{field.Required(at, "type RollingUpdate needs it")}
	}
	errs := atMostAll(rolling.MaxUnavailable, at.Child("maxUnavailable"))
	errs = append(errs, atMostAll(rolling.MaxSurge, at.Child("maxSurge"))...)
	errs = append(errs, atMostAll(rolling.Partition, at.Child("partition"))...)
	return append(errs, validateBudget(rolling, at)...)
}

// validateBudget wants exactly a single budget above 0.
func validateBudget(rolling *v1beta1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	unavailable, surge := rolling.MaxUnavailable, rolling.MaxSurge
	switch {
	case unavailable == nil && surge == nil, isOdd(unavailable), isOdd(surge): // defaulted, or reported already
		return nil
	case isNone(unavailable) && isNone(surge):
		return field.ErrorList{field.Required(path.Child("maxUnavailable"), "must be at least 1 or 1% when maxSurge is 0")}
	case !isNone(unavailable) && !isNone(surge):
		return field.ErrorList{field.Invalid(path.Child("maxSurge"), surge.String(), "must be 0 when maxUnavailable is not")}
	}
	return nil
}

// isNone reports whether a count amounts to 0 of any number of Nodes.
func isNone(value *intstr.IntOrString) bool { return value == nil || !validation.AtLeastOne(*value, 1) }

// isOdd reports whether a value is no count.
func isOdd(value *intstr.IntOrString) bool { return len(count(value, nil)) > 0 }

// wholePercent refuses percentages with decimals, unreadable for OpenKruise. Another function reports values other than
// counts.
func wholePercent(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if value == nil || value.Type == intstr.Int || isOdd(value) || len(utilvalidation.IsValidPercent(value.StrVal)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.StrVal, "has decimals; "+wanted)}
}

// atMostAll also refuses more than 100%.
func atMostAll(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	errs := wholePercent(value, path)
	if len(errs) > 0 || value == nil || value.Type == intstr.Int || isOdd(value) {
		return errs
	}
	if percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%")); err != nil || percent > 100 {
		return field.ErrorList{field.Invalid(path, value.StrVal, "must be at most 100%")}
	}
	return nil
}
