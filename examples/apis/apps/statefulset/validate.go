package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// ValidateOptions are what validation needs to know besides the object. The zero value is right for tools without a
// cluster.
type ValidateOptions struct {
	// StorageClasses finds the classes of claims that are to grow. Nil leaves that check out.
	StorageClasses StorageClasses
	// AutoResizePVC has claims grow with their templates (gate StatefulSetAutoResizePVCGate).
	AutoResizePVC bool
	// InPlaceResources lets cpu and memory change in place (gate InPlaceWorkloadVerticalScaling).
	InPlaceResources bool
	// DeletionProtection makes the protection label effective (gate ResourcesDeletionProtection).
	DeletionProtection bool
}

// ValidateCreate returns what is wrong with a new, defaulted object.
func ValidateCreate(obj *v1beta1.StatefulSet) field.ErrorList {
	return append(validateName(obj), validateSpec(obj)...)
}

// ValidateUpdate returns what is wrong with an update: its own rules, and all of [ValidateCreate] about the spec. Problems of spec that
// old has in the same place with the same value are left out. The error says that a storage class could not be looked up.
func ValidateUpdate(obj, old *v1beta1.StatefulSet, opts ValidateOptions) (field.ErrorList, error) {
	errs := validation.NewProblems(validateSpec(obj), validateSpec(old))
	errs = append(errs, validateFixed(&obj.Spec, &old.Spec)...)
	errs = append(errs, validateInPlaceOnly(obj, old, opts)...)
	more, err := validateClaimUpdate(&obj.Spec, &old.Spec, opts)
	return append(errs, more...), err
}

// ValidateDelete refuses to delete a protected object. It does nothing unless opts.DeletionProtection is set.
// Values of the label other than Always and Cascading protect nothing.
func ValidateDelete(obj *v1beta1.StatefulSet, opts ValidateOptions) field.ErrorList {
	if !opts.DeletionProtection {
		return nil
	}
	return validation.DeletionProtected("StatefulSet", obj.Labels, replicasOf(obj))
}

// validateFixed refuses changes of what Pods are known by.
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

// validateInPlaceOnly refuses a template change that InPlaceOnly could not carry out.
func validateInPlaceOnly(obj, old *v1beta1.StatefulSet, opts ValidateOptions) field.ErrorList {
	strategy := obj.Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateStatefulSetStrategyType || strategy.RollingUpdate == nil ||
		strategy.RollingUpdate.PodUpdatePolicy != v1beta1.InPlaceOnly {
		return nil
	}
	obstacles := func(old, next *corev1.PodTemplateSpec) []string {
		return validation.InPlaceObstacles(old, next, opts.InPlaceResources)
	}
	return validation.InPlaceOnly(&old.Spec.Template, &obj.Spec.Template, obstacles, specPath().Child("template"))
}

// validateName checks the name. It is the hostname of each Pod, together with its number, so that it has no dots.
func validateName(obj *v1beta1.StatefulSet) field.ErrorList {
	return validation.Name(obj, apivalidation.NameIsDNSLabel)
}

// managementOf returns the policy that is in effect.
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
