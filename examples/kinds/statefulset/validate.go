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

// validateOptions are inputs of the validation in addition to the object.
type validateOptions struct {
	// storageClasses looks up the StorageClasses of claims that an update would resize. If storageClasses is nil, the
	// check is skipped.
	storageClasses storageClasses
	// autoResizePVC is true if claims are resized when the size in their templates is raised (gate
	// StatefulSetAutoResizePVCGate).
	autoResizePVC bool
	// inPlaceResources is true if cpu and memory may be changed in place (gate InPlaceWorkloadVerticalScaling).
	inPlaceResources bool
}

// validateSpec returns all errors in a spec.
func validateSpec(obj *v1beta1.StatefulSet) field.ErrorList {
	_, problems, warnings := resolve(obj, nil)
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateCreate returns the errors in a new object with defaults. A Pod's name, which is this name with an ordinal, is
// also the Pod's hostname, so the name must not contain a dot.
func validateCreate(obj *v1beta1.StatefulSet) field.ErrorList {
	return append(validation.Name(obj, apivalidation.NameIsDNSLabel), validateSpec(obj)...)
}

// validateUpdate returns the errors in an update, by the rules for updates and by all rules for the spec. Errors in the
// spec that old has too, at the same path with the same value, are left out. err means that a StorageClass could not be
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

// validateDelete returns an error if the object is protected from deletion.
func validateDelete(obj *v1beta1.StatefulSet) field.ErrorList {
	return validation.DeletionProtected("StatefulSet", obj.Labels, replicasOf(obj))
}

// validateFixed returns errors for changes of fields that determine the Pods' identity.
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

// managementOf returns the Pod management policy, or the default if none is set.
func managementOf(spec *v1beta1.StatefulSetSpec) appsv1.PodManagementPolicyType {
	return cmp.Or(spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
}
