package cloneset

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// ValidateOptions are the inputs of validation besides the object. The zero value is right for tools without a cluster.
type ValidateOptions struct {
	// Pods are the Pods of the object's namespace, by name. Only their metadata is read. Nil leaves a check out: new names
	// in podsToDelete must be Pods of this CloneSet without a deletion timestamp. Empty means: the namespace has no Pods.
	Pods map[string]metav1.Object
	// InPlacePossible says why template changes cannot be made in place, in a sentence or path for each reason. Nil or an
	// empty result means: the changes are possible in place. The arguments are the templates of both objects. A nil
	// function stands for [validation.InPlaceObstacles] with InPlaceResources.
	InPlacePossible func(old, next *corev1.PodTemplateSpec) []string
	// InPlaceResources lets cpu and memory change in place (gate InPlaceWorkloadVerticalScaling).
	InPlaceResources bool
	// DeletionProtection makes the protection label effective (gate ResourcesDeletionProtection).
	DeletionProtection bool
}

// ValidateCreate returns the problems of a new, defaulted object.
func ValidateCreate(obj *v1beta1.CloneSet, opts ValidateOptions) field.ErrorList {
	errs := validation.Name(obj, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validateSpec(obj)...)
	return append(errs, validatePodsToDelete(obj, nil, opts.Pods)...)
}

// ValidateUpdate returns the problems of an update (its own rules and all rules of [ValidateCreate]). Problems of spec
// in the same place and with the same value in old are left out.
func ValidateUpdate(obj, old *v1beta1.CloneSet, opts ValidateOptions) field.ErrorList {
	errs := validation.NewProblems(validateSpec(obj), validateSpec(old))
	errs = append(errs, validatePodsToDelete(obj, old, opts.Pods)...)
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, field.Forbidden(specPath(), "selector cannot change; updates may change only replicas, "+
			"template, scaleStrategy, updateStrategy, minReadySeconds, lifecycle, revisionHistoryLimit, "+
			"volumeClaimTemplates and progressDeadlineSeconds"))
	}
	return append(errs, validateInPlaceOnly(obj, old, opts)...)
}

// ValidateDelete refuses to delete a protected object. ValidateDelete does nothing unless opts.DeletionProtection is
// set. Values of the label besides Always and Cascading protect nothing.
func ValidateDelete(obj *v1beta1.CloneSet, opts ValidateOptions) field.ErrorList {
	if !opts.DeletionProtection {
		return nil
	}
	return validation.DeletionProtected("CloneSet", obj.Labels, replicasOf(obj))
}

// ValidateV1alpha1 returns the problems hidden by conversion to v1beta1: the type must be a Pod update policy of
// v1alpha1 or unset. old is nil on creation. The type of old is accepted, so that a v1beta1 object of type OnDelete can
// be edited through v1alpha1. A type of v1beta1 means that the API server does not convert: the sent object lacks all
// stored fields unknown to v1alpha1, and would lose the fields.
func ValidateV1alpha1(obj, old *v1alpha1.CloneSet) field.ErrorList {
	kind := obj.Spec.UpdateStrategy.Type
	switch kind {
	case "", v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceOnly:
		return nil
	case v1alpha1.OnDelete:
	case v1alpha1.CloneSetUpdateStrategyType(v1beta1.RollingUpdate):
		return field.ErrorList{field.Invalid(specPath().Child("updateStrategy", "type"), kind,
			"is a type of v1beta1, use ReCreate, InPlaceIfPossible or InPlaceOnly; if it was read as v1alpha1, the API server does not convert "+
				"objects: spec.conversion.strategy of the CustomResourceDefinition must be Webhook")}
	}
	if old != nil && old.Spec.UpdateStrategy.Type == kind {
		return nil
	}
	return field.ErrorList{field.NotSupported(specPath().Child("updateStrategy", "type"), kind,
		[]v1alpha1.CloneSetUpdateStrategyType{v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceOnly})}
}

func specPath() *field.Path { return field.NewPath("spec") }

func replicasOf(obj *v1beta1.CloneSet) int32 {
	if obj.Spec.Replicas == nil {
		return DefaultReplicas
	}
	return *obj.Spec.Replicas
}
