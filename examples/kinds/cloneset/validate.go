package cloneset

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateOptions are inputs of the validation in addition to the object.
type validateOptions struct {
	// pods are the Pods in the object's namespace, by name. Only their metadata is used. If pods is nil, one check is
	// skipped: each name added to podsToDelete must be a Pod of this CloneSet that is not being deleted.
	pods map[string]metav1.Object
	// inPlaceResources is true if cpu and memory may be changed in place (gate InPlaceWorkloadVerticalScaling).
	inPlaceResources bool
}

// validateSpec returns all errors in a spec.
func validateSpec(obj *v1beta1.CloneSet) field.ErrorList {
	_, problems, warnings := resolve(obj, Options{})
	return append(problems.Refusals(), warnings.Refusals()...)
}

// validateCreate returns the errors in a new object with defaults.
func validateCreate(obj *v1beta1.CloneSet, opts validateOptions) field.ErrorList {
	errs := validation.Name(obj, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validateSpec(obj)...)
	return append(errs, validatePodsToDelete(obj, nil, opts.pods)...)
}

// validateUpdate returns the errors in an update, by the rules for updates and by all rules for the spec. Errors in the
// spec that old has too, at the same path with the same value, are left out.
func validateUpdate(obj, old *v1beta1.CloneSet, opts validateOptions) field.ErrorList {
	path := field.NewPath("spec")
	errs := validation.NewProblems(validateSpec(obj), validateSpec(old))
	errs = append(errs, validatePodsToDelete(obj, old.Spec.ScaleStrategy.PodsToDelete, opts.pods)...)
	if !apiequality.Semantic.DeepEqual(obj.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, field.Forbidden(path, "selector cannot change; updates may change only replicas, "+
			"template, scaleStrategy, updateStrategy, minReadySeconds, lifecycle, revisionHistoryLimit, "+
			"volumeClaimTemplates and progressDeadlineSeconds"))
	}
	strategy := obj.Spec.UpdateStrategy
	if strategy.Type == v1beta1.RollingUpdate && strategy.RollingUpdate != nil &&
		strategy.RollingUpdate.PodUpdatePolicy == v1beta1.InPlaceOnly {
		errs = append(errs, validation.InPlaceOnly(&old.Spec.Template, &obj.Spec.Template, opts.inPlaceResources,
			path.Child("template"))...)
	}
	return errs
}

// validateV1alpha1 returns the errors that would be lost in the conversion to v1beta1: the type must be unset, or an
// update policy of v1alpha1. old is nil on creation. The type that old has is accepted, so that users can edit a
// v1beta1 object of type OnDelete through v1alpha1. If the type exists only in v1beta1, the API server has not
// converted the object. The object then lacks all fields that v1alpha1 does not have, and storing the object would lose
// these fields.
func validateV1alpha1(obj, old *v1alpha1.CloneSet) field.ErrorList {
	kind, path := obj.Spec.UpdateStrategy.Type, field.NewPath("spec", "updateStrategy", "type")
	known := []v1alpha1.CloneSetUpdateStrategyType{v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceOnly}
	switch {
	case kind == "" || slices.Contains(known, kind):
		return nil
	case kind == v1alpha1.CloneSetUpdateStrategyType(v1beta1.RollingUpdate):
		return field.ErrorList{field.Invalid(path, kind,
			"is a type of v1beta1, use ReCreate, InPlaceIfPossible or InPlaceOnly; if it was read as v1alpha1, the API server does not convert "+
				"objects: spec.conversion.strategy of the CustomResourceDefinition must be Webhook")}
	case old != nil && old.Spec.UpdateStrategy.Type == kind:
		return nil
	}
	return field.ErrorList{field.NotSupported(path, kind, known)}
}

// validatePodsToDelete checks the names of Pods in podsToDelete. Names that are stored already are not checked again,
// because their Pods may be being deleted.
func validatePodsToDelete(obj *v1beta1.CloneSet, stored []string,
	pods map[string]metav1.Object,
) (errs field.ErrorList) {
	path, names := field.NewPath("spec", "scaleStrategy", "podsToDelete"), obj.Spec.ScaleStrategy.PodsToDelete
	if slices.Equal(stored, names) {
		return nil
	}
	known, seen := sets.New(stored...), sets.New[string]()
	for i, name := range names {
		switch {
		case seen.Has(name):
			errs = append(errs, field.Duplicate(path.Index(i), name))
		case !known.Has(name) && pods != nil:
			if why := notDeletable(obj, pods[name]); why != "" {
				errs = append(errs, field.Invalid(path.Index(i), name, why))
			}
		}
		seen.Insert(name)
	}
	return errs
}

// notDeletable returns why podsToDelete must not name the Pod, or "" if podsToDelete may. A nil Pod means that the Pod
// does not exist.
func notDeletable(obj *v1beta1.CloneSet, pod metav1.Object) string {
	if pod == nil {
		return "must name an existing Pod"
	}
	if owner := metav1.GetControllerOf(pod); owner == nil || obj.UID == "" || owner.UID != obj.UID {
		return "must name a Pod of this CloneSet"
	}
	if pod.GetDeletionTimestamp() != nil {
		return "must name a Pod that is not terminating"
	}
	return ""
}
