package daemonset

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// maxName is the largest length of a name, in characters. A dash and a hash of up to 10 characters are added for the
// name of a revision. The label of a Pod contains only the hash.
const maxName = utilvalidation.DNS1123SubdomainMaxLength - 1 - 10

// validateSpec returns all errors in a spec.
func validateSpec(obj *v1beta1.DaemonSet) field.ErrorList {
	_, problems, warnings := resolve(obj, nil)
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateCreate returns the errors in a new object with defaults.
func validateCreate(obj *v1beta1.DaemonSet) field.ErrorList {
	return append(validation.NameUpTo(maxName, obj, apivalidation.NameIsDNSSubdomain), validateSpec(obj)...)
}

// validateUpdate returns the errors in an update: a changed selector, and all errors of [validateCreate] except about
// the name. Errors in the spec that old has too, at the same path with the same value, are left out.
func validateUpdate(obj, old *v1beta1.DaemonSet) field.ErrorList {
	errs := validation.NewProblems(validateSpec(obj), validateSpec(old))
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"),
			"selector cannot change; updates may change only template, scaleStrategy, "+
				"updateStrategy, lifecycle, burstReplicas, minReadySeconds and revisionHistoryLimit"))
	}
	return errs
}

// validateV1alpha1 returns the errors that would be lost in the conversion to v1beta1: the type Surging becomes the
// type Standard with a maxUnavailable of 0. old is nil on creation. Errors that old has too are accepted.
func validateV1alpha1(obj, old *v1alpha1.DaemonSet) field.ErrorList {
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
		rolling.RollingUpdateType != v1alpha1.SurgingRollingUpdateType ||
		rolling.MaxUnavailable == nil || !validation.AtLeastOne(*rolling.MaxUnavailable, 1) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec").Child("updateStrategy", "rollingUpdate",
		"maxUnavailable"), rolling.MaxUnavailable.String(),
		"must be 0 with Surging; use Standard")}
}
