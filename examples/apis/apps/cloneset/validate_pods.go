package cloneset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validatePodsToDelete checks the names of Pods. Names in the stored object are not looked up again: their Pods may be
// on their way out.
func validatePodsToDelete(obj, old *v1beta1.CloneSet, pods map[string]metav1.Object) field.ErrorList {
	path := specPath().Child("scaleStrategy", "podsToDelete")
	var before []string
	if old != nil {
		before = old.Spec.ScaleStrategy.PodsToDelete
	}
	known := sets.New(before...)
	var errs field.ErrorList
	unchanged := slices.Equal(before, obj.Spec.ScaleStrategy.PodsToDelete)
	seen := sets.New[string]()
	for i, name := range obj.Spec.ScaleStrategy.PodsToDelete {
		switch {
		case seen.Has(name):
			if !unchanged {
				errs = append(errs, field.Duplicate(path.Index(i), name))
			}
		case !known.Has(name) && pods != nil:
			if why := notDeletable(obj, pods[name]); why != "" {
				errs = append(errs, field.Invalid(path.Index(i), name, why))
			}
		}
		seen.Insert(name)
	}
	return errs
}

// notDeletable returns why a CloneSet cannot be asked to delete the Pod, or "". A nil Pod does not exist.
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

// validateInPlaceOnly refuses a template change impossible under InPlaceOnly.
func validateInPlaceOnly(obj, old *v1beta1.CloneSet, opts ValidateOptions) field.ErrorList {
	strategy := obj.Spec.UpdateStrategy
	if strategy.Type != v1beta1.RollingUpdate || strategy.RollingUpdate == nil || strategy.RollingUpdate.PodUpdatePolicy != v1beta1.InPlaceOnly {
		return nil
	}
	obstacles := opts.InPlacePossible
	if obstacles == nil {
		obstacles = func(old, next *corev1.PodTemplateSpec) []string {
			return validation.InPlaceObstacles(old, next, opts.InPlaceResources)
		}
	}
	return validation.InPlaceOnly(&old.Spec.Template, &obj.Spec.Template, obstacles, specPath().Child("template"))
}
