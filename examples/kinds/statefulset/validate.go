package statefulset

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateOptions are the facts for validation besides the object.
type validateOptions struct {
	// storageClasses finds the classes of growing claims. Nil skips the check.
	storageClasses storageClasses
	// autoResizePVC has claims grow with their templates (gate StatefulSetAutoResizePVCGate).
	autoResizePVC bool
	// inPlaceResources lets cpu and memory change in place (gate InPlaceWorkloadVerticalScaling).
	inPlaceResources bool
}

// validateSpec refuses all faults of a spec.
func validateSpec(obj *v1beta1.StatefulSet) field.ErrorList {
	_, problems, warnings := resolve(obj, nil)
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateCreate returns the problems of a new, defaulted object. The name, together with an ordinal, is the hostname
// of a Pod, so the name has no dots.
func validateCreate(obj *v1beta1.StatefulSet) field.ErrorList {
	return append(validation.Name(obj, apivalidation.NameIsDNSLabel), validateSpec(obj)...)
}

// validateUpdate returns the problems of an update: by its own rules, and by all rules of the spec. Problems of spec
// already in old, in the same place with the same value, are left out. The error means: a storage class could not be
// read.
func validateUpdate(obj, old *v1beta1.StatefulSet, opts validateOptions) (field.ErrorList, error) {
	errs := validation.NewProblems(validateSpec(obj), validateSpec(old))
	errs = append(errs, validateFixed(&obj.Spec, &old.Spec)...)
	strategy := obj.Spec.UpdateStrategy
	if strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && strategy.RollingUpdate != nil &&
		strategy.RollingUpdate.PodUpdatePolicy == v1beta1.InPlaceOnly {
		path := field.NewPath("spec", "template")
		errs = append(errs, validation.InPlaceOnly(&old.Spec.Template, &obj.Spec.Template, opts.inPlaceResources,
			path)...)
	}
	more, err := validateClaimUpdate(&obj.Spec, &old.Spec, opts)
	return append(errs, more...), err
}

// validateDelete refuses to delete a protected object.
func validateDelete(obj *v1beta1.StatefulSet) field.ErrorList {
	return validation.DeletionProtected("StatefulSet", obj.Labels, replicasOf(obj))
}

// validateFixed refuses changes of the Pods' identity.
func validateFixed(next, old *v1beta1.StatefulSetSpec) field.ErrorList {
	var errs field.ErrorList
	for _, fixed := range []struct {
		name    string
		changed bool
	}{
		{"selector", !apiequality.Semantic.DeepEqual(next.Selector, old.Selector)},
		{"serviceName", next.ServiceName != old.ServiceName},
		{"podManagementPolicy", managementOf(next) != managementOf(old)},
	} {
		if fixed.changed {
			errs = append(errs, field.Forbidden(field.NewPath("spec"),
				fixed.name+" cannot change; updates may change only replicas, template, "+
					"updateStrategy, scaleStrategy, persistentVolumeClaimRetentionPolicy, volumeClaimTemplates, volumeClaimUpdateStrategy, "+
					"reserveOrdinals, ordinals, lifecycle and revisionHistoryLimit"))
		}
	}
	return errs
}

// managementOf returns the effective policy.
func managementOf(spec *v1beta1.StatefulSetSpec) appsv1.PodManagementPolicyType {
	return cmp.Or(spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
}
