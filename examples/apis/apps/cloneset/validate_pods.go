package cloneset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// validatePodsToDelete checks the names of Pods. Names the stored object has already are not looked up again: their Pods
// may be on their way out.
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

// validateInPlaceOnly refuses a template change that InPlaceOnly could not carry out.
func validateInPlaceOnly(obj, old *v1beta1.CloneSet, opts ValidateOptions) field.ErrorList {
	strategy := obj.Spec.UpdateStrategy
	if strategy.Type != v1beta1.RollingUpdate || strategy.RollingUpdate == nil ||
		strategy.RollingUpdate.PodUpdatePolicy != v1beta1.InPlaceOnly {
		return nil
	}
	if apiequality.Semantic.DeepEqual(obj.Spec.Template, old.Spec.Template) {
		return nil
	}
	obstacles := opts.InPlacePossible
	if obstacles == nil {
		obstacles = func(old, next *corev1.PodTemplateSpec) []string {
			return InPlaceObstacles(old, next, opts.InPlaceResources)
		}
	}
	var errs field.ErrorList
	for _, why := range obstacles(&old.Spec.Template, &obj.Spec.Template) {
		errs = append(errs, field.Forbidden(specPath().Child("template"), "InPlaceOnly cannot change this: "+why))
	}
	return errs
}

// InPlaceObstacles returns what of a template change cannot be made in place, going by the fields alone: labels, annotations and the
// images of containers may change, and with resources also the amounts of cpu and memory that are set already. Everything
// else is an obstacle.
func InPlaceObstacles(old, next *corev1.PodTemplateSpec, resources bool) []string {
	before, after := old.Spec.DeepCopy(), next.Spec.DeepCopy()
	if len(before.Containers) != len(after.Containers) {
		return []string{"number of containers"}
	}
	var obstacles []string
	for i := range after.Containers {
		was, is := &before.Containers[i], &after.Containers[i]
		is.Image = was.Image
		if resources {
			levelAmounts(was.Resources.Limits, is.Resources.Limits)
			levelAmounts(was.Resources.Requests, is.Resources.Requests)
		}
		if !apiequality.Semantic.DeepEqual(was, is) {
			obstacles = append(obstacles, "container "+is.Name+": something other than its image")
		}
	}
	before.Containers, after.Containers = nil, nil
	if !apiequality.Semantic.DeepEqual(before, after) {
		obstacles = append(obstacles, "a field of the Pod's spec outside containers")
	}
	return obstacles
}

// levelAmounts hides changes of cpu and memory that both lists have.
func levelAmounts(was, is corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		amount, before := was[name]
		if _, after := is[name]; before && after {
			is[name] = amount
		}
	}
}
