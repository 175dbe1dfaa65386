package statefulset

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateSpec refuses [Unusable] values, and working mistakes. Without replicas, percentages are judged as of a single
// replica: no later validation sees scaling up.
func validateSpec(obj *v1beta1.StatefulSet) field.ErrorList {
	spec, path := &obj.Spec, specPath()
	errs := unusable(obj, max(replicasOf(obj), 1))
	errs = append(errs, validation.NotNegative(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	errs = append(errs, validation.ClaimNames(spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	errs = append(errs, validation.LongRunning(&spec.Template, path.Child("template"))...)
	errs = append(errs, validation.Reserved(&spec.Template, apps.ReservedStatefulSetLabels(), path.Child("template", "metadata"))...)
	errs = append(errs, oneOf(path.Child("volumeClaimUpdateStrategy", "type"), spec.VolumeClaimUpdateStrategy.Type,
		"", v1beta1.ClaimsOnDelete, v1beta1.ClaimsOnPodRollingUpdate)...)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		errs = append(errs, unset(policy)...)
	}
	if spec.ServiceName != "" {
		for _, why := range utilvalidation.IsDNS1123Label(spec.ServiceName) {
			errs = append(errs, field.Invalid(path.Child("serviceName"), spec.ServiceName, why))
		}
	}
	if scale := spec.ScaleStrategy; scale != nil {
		errs = append(errs, validateBudget(scale.MaxUnavailable, spec, path.Child("scaleStrategy", "maxUnavailable"))...)
	}
	return append(errs, validateUpdateStrategy(spec, path.Child("updateStrategy"))...)
}

// unset refuses a retention policy without a value for either of its two cases: only defaults may leave a case open.
func unset(policy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) field.ErrorList {
	return slices.DeleteFunc(retention(policy), func(err *field.Error) bool {
		return err.BadValue != appsv1.PersistentVolumeClaimRetentionPolicyType("") // said before
	})
}

func validateUpdateStrategy(spec *v1beta1.StatefulSetSpec, path *field.Path) field.ErrorList {
	rolling, at := spec.UpdateStrategy.RollingUpdate, path.Child("rollingUpdate")
	var errs field.ErrorList
	switch spec.UpdateStrategy.Type {
	case "":
		errs = append(errs, field.Required(path.Child("type"), "use RollingUpdate or OnDelete"))
	case appsv1.OnDeleteStatefulSetStrategyType:
		if rolling != nil {
			return field.ErrorList{field.Forbidden(at, "OnDelete has no settings; use null to remove it")}
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if rolling == nil {
			return field.ErrorList{field.Required(at, "type RollingUpdate needs it")}
		}
	}
	if rolling == nil {
		return errs
	}
	errs = append(errs, validateBudget(rolling.MaxUnavailable, spec, at.Child("maxUnavailable"))...)
	errs = append(errs, validateGate(rolling.PodUpdatePolicy, &spec.Template)...)
	if rolling.UnorderedUpdate != nil && managementOf(spec) != appsv1.ParallelPodManagement {
		errs = append(errs, field.Forbidden(at.Child("unorderedUpdate"), "needs podManagementPolicy Parallel"))
	}
	if seconds := rolling.MinReadySeconds; seconds != nil && (*seconds < 0 || *seconds > MaxMinReadySeconds) {
		errs = append(errs, field.Invalid(at.Child("minReadySeconds"), *seconds, fmt.Sprintf("must be from 0 to %d", MaxMinReadySeconds)))
	}
	return append(errs, validation.InPlaceStrategy(rolling.InPlaceUpdateStrategy, at.Child("inPlaceUpdateStrategy"))...)
}

// validateBudget refuses budgets of nothing, and budgets useless with OrderedReady. Another function refuses values
// other than counts.
func validateBudget(limit *intstr.IntOrString, spec *v1beta1.StatefulSetSpec, path *field.Path) field.ErrorList {
	switch {
	case limit == nil || len(validation.Count(limit, path)) > 0:
		return nil
	case managementOf(spec) == appsv1.OrderedReadyPodManagement && *limit != intstr.FromInt32(1):
		return field.ErrorList{field.Invalid(path, limit.String(), "must be 1 with podManagementPolicy OrderedReady, which handles one Pod at a time")}
	case !validation.AtLeastOne(*limit, 1):
		return field.ErrorList{field.Invalid(path, limit.String(), "must be more than 0")}
	}
	return nil
}

// validateGate refuses in-place updates of Pods without a way to become unready meanwhile.
func validateGate(policy v1beta1.PodUpdatePolicy, template *corev1.PodTemplateSpec) field.ErrorList {
	gate := corev1.PodReadinessGate{ConditionType: apps.ConditionInPlaceUpdateReady}
	inPlace := policy == v1beta1.InPlaceIfPossible || policy == v1beta1.InPlaceOnly
	if !inPlace || slices.Contains(template.Spec.ReadinessGates, gate) {
		return nil
	}
	return field.ErrorList{field.Required(specPath().Child("template", "spec", "readinessGates"), fmt.Sprintf(
		"must have conditionType %s for podUpdatePolicy %s", gate.ConditionType, policy))}
}
