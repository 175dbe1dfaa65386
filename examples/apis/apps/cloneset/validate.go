package cloneset

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// ValidateOptions are what validation needs to know besides the object. The zero value is right for tools without a
// cluster.
type ValidateOptions struct {
	// Pods are the Pods of the object's namespace, by name; of each only the metadata is read. Nil leaves out the check that names
	// newly put in podsToDelete are Pods of this CloneSet that are not terminating; empty means that there are none.
	Pods map[string]metav1.Object
	// InPlacePossible says why template changes cannot be made in place, one sentence or path each; nil or empty means
	// they can. It gets the templates as they are in both objects. Nil stands for [InPlaceObstacles] with
	// InPlaceResources.
	InPlacePossible func(old, next *corev1.PodTemplateSpec) []string
	// InPlaceResources lets cpu and memory change in place (gate InPlaceWorkloadVerticalScaling).
	InPlaceResources bool
	// DeletionProtection makes the protection label effective (gate ResourcesDeletionProtection).
	DeletionProtection bool
}

// ValidateCreate returns what is wrong with a new, defaulted object.
func ValidateCreate(obj *v1beta1.CloneSet, opts ValidateOptions) field.ErrorList {
	errs := validateName(obj)
	errs = append(errs, validateSpec(obj)...)
	return append(errs, validatePodsToDelete(obj, nil, opts.Pods)...)
}

// ValidateUpdate returns what is wrong with an update (its own rules and all of [ValidateCreate]). Problems of spec that
// old has in the same place with the same value are left out.
func ValidateUpdate(obj, old *v1beta1.CloneSet, opts ValidateOptions) field.ErrorList {
	errs := newProblems(validateSpec(obj), validateSpec(old))
	errs = append(errs, validatePodsToDelete(obj, old, opts.Pods)...)
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, field.Forbidden(specPath(), "selector cannot change; updates may change only replicas, "+
			"template, scaleStrategy, updateStrategy, minReadySeconds, lifecycle, revisionHistoryLimit, "+
			"volumeClaimTemplates and progressDeadlineSeconds"))
	}
	return append(errs, validateInPlaceOnly(obj, old, opts)...)
}

// ValidateDelete refuses to delete a protected object. It does nothing unless opts.DeletionProtection is set.
// Values of the label other than Always and Cascading protect nothing.
func ValidateDelete(obj *v1beta1.CloneSet, opts ValidateOptions) field.ErrorList {
	protection, ok := obj.Labels[apps.LabelDeleteProtection]
	if !ok || !opts.DeletionProtection {
		return nil
	}
	path := field.NewPath("metadata", "labels").Key(apps.LabelDeleteProtection)
	switch {
	case protection == apps.DeleteProtectionAlways:
		return field.ErrorList{field.Forbidden(path, "Always: remove the label before deleting the CloneSet")}
	case protection == apps.DeleteProtectionCascading && replicasOf(obj) > 0:
		return field.ErrorList{field.Forbidden(path, "Cascading: scale to 0 or remove the label before deleting")}
	}
	return nil
}

// ValidateV1alpha1 returns the problems that conversion to v1beta1 would hide: the type must be one of the three Pod
// update policies or unset. old is nil on creation. A type that old already has is accepted, so that a v1beta1 object
// of type OnDelete can be edited through v1alpha1. A type of v1beta1 means that the API server does not convert: what v1alpha1 does not
// know of the stored object is gone from what was sent, and would be lost.
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

// newProblems returns the errors that are not in before.
func newProblems(errs, before field.ErrorList) field.ErrorList {
	known := map[string]bool{}
	for _, err := range before {
		known[err.Error()] = true
	}
	var fresh field.ErrorList
	for _, err := range errs {
		if !known[err.Error()] {
			fresh = append(fresh, err)
		}
	}
	return fresh
}

// maxName is the longest name, in characters: with a dash and a hash of up to 10 it is the value of a label on every Pod, which has at most
// 63.
const maxName = 63 - 1 - 10

// validateName checks the name, or what it will be made from.
func validateName(obj *v1beta1.CloneSet) field.ErrorList {
	name, path, prefix := obj.Name, field.NewPath("metadata", "name"), false
	if name == "" && obj.GenerateName != "" {
		name, path, prefix = obj.GenerateName, field.NewPath("metadata", "generateName"), true
	}
	if name == "" {
		return field.ErrorList{field.Required(path, "name or generateName is required")}
	}
	var errs field.ErrorList
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, prefix) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	longest := maxName
	if prefix {
		longest -= len("x7k2p") // what the API server adds
	}
	if len(name) > longest {
		errs = append(errs, field.TooLong(path, name, longest))
	}
	return errs
}

func replicasOf(obj *v1beta1.CloneSet) int32 {
	if obj.Spec.Replicas == nil {
		return DefaultReplicas
	}
	return *obj.Spec.Replicas
}
