package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// ValidateOptions are the facts for validation besides the object. The zero value suits tools without a cluster.
type ValidateOptions struct {
	// StorageClasses finds the classes of growing claims. Nil skips the check.
	StorageClasses StorageClasses
	// AutoResizePVC has claims grow with their templates (gate StatefulSetAutoResizePVCGate).
	AutoResizePVC bool
	// InPlaceResources lets cpu and memory change in place (gate InPlaceWorkloadVerticalScaling).
	InPlaceResources bool
	// DeletionProtection makes the protection label effective (gate ResourcesDeletionProtection).
	DeletionProtection bool
}

// ValidateCreate returns the problems of a new, defaulted object.
func ValidateCreate(obj *v1beta1.StatefulSet) field.ErrorList {
	return append(validateName(obj), validateSpec(obj)...)
}

// ValidateUpdate returns the problems of an update: by its own rules, and by [ValidateCreate] for the spec. Problems of
// spec already in old, in the same place with the same value, are left out. The error means: a storage class could not
// be read.
func ValidateUpdate(obj, old *v1beta1.StatefulSet, opts ValidateOptions) (field.ErrorList, error) {
	errs := validation.NewProblems(validateSpec(obj), validateSpec(old))
	errs = append(errs, validateFixed(&obj.Spec, &old.Spec)...)
	errs = append(errs, validateInPlaceOnly(obj, old, opts)...)
	more, err := validateClaimUpdate(&obj.Spec, &old.Spec, opts)
	return append(errs, more...), err
}

// ValidateDelete refuses to delete a protected object. ValidateDelete does nothing unless opts.DeletionProtection is
// set. Label values besides Always and Cascading protect nothing.
func ValidateDelete(obj *v1beta1.StatefulSet, opts ValidateOptions) field.ErrorList {
	if !opts.DeletionProtection {
		return nil
	}
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
			errs = append(errs, field.Forbidden(specPath(), fixed.name+" cannot change; updates may change only replicas, template, "+
				"updateStrategy, scaleStrategy, persistentVolumeClaimRetentionPolicy, volumeClaimTemplates, volumeClaimUpdateStrategy, "+
				"reserveOrdinals, ordinals, lifecycle and revisionHistoryLimit"))
		}
	}
	return errs
}

// validateInPlaceOnly refuses a template change impossible with InPlaceOnly.
func validateInPlaceOnly(obj, old *v1beta1.StatefulSet, opts ValidateOptions) field.ErrorList {
	strategy := obj.Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateStatefulSetStrategyType || strategy.RollingUpdate == nil ||
		strategy.RollingUpdate.PodUpdatePolicy != v1beta1.InPlaceOnly {
		return nil
	}
	return validation.InPlaceOnly(&old.Spec.Template, &obj.Spec.Template, opts.InPlaceResources, specPath().Child("template"))
}

// validateName checks the name. The name, together with an ordinal, is the hostname of a Pod, so the name has no dots.
func validateName(obj *v1beta1.StatefulSet) field.ErrorList {
	return validation.Name(obj, apivalidation.NameIsDNSLabel)
}

// managementOf returns the effective policy.
func managementOf(spec *v1beta1.StatefulSetSpec) appsv1.PodManagementPolicyType {
	if spec.PodManagementPolicy == "" {
		return appsv1.OrderedReadyPodManagement
	}
	return spec.PodManagementPolicy
}

func specPath() *field.Path { return field.NewPath("spec") }

func replicasOf(obj *v1beta1.StatefulSet) int32 {
	if obj.Spec.Replicas == nil {
		return DefaultReplicas
	}
	return *obj.Spec.Replicas
}
