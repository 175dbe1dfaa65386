package validation

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// InPlaceStrategy validates the grace period and the parallelism. A parallelism in quotes is accepted if it is an
// integer.
func InPlaceStrategy(strategy *pub.InPlaceUpdateStrategy, path *field.Path) field.ErrorList {
	if strategy == nil {
		return nil
	}
	errs := NotNegative(&strategy.GracePeriodSeconds, path.Child("gracePeriodSeconds"))
	errs = append(errs, NotNegative(strategy.ImagePreDownloadTimeoutSeconds, path.Child("imagePreDownloadTimeoutSeconds"))...)
	errs = append(errs, NotNegative(strategy.ImagePreDownloadMinUpdatedReadyPods,
		path.Child("imagePreDownloadMinUpdatedReadyPods"))...)
	if parallelism := strategy.ImagePreDownloadParallelism; parallelism != nil {
		number := int64(parallelism.IntVal)
		var err error
		if parallelism.Type == intstr.String {
			number, err = strconv.ParseInt(parallelism.StrVal, 10, 32)
		}
		if err != nil || number < 0 {
			errs = append(errs, field.Invalid(path.Child("imagePreDownloadParallelism"), parallelism.String(),
				"must be an integer of at least 0; percentages are not allowed"))
		}
	}
	return errs
}

// InPlaceOnly returns errors for changes of a template that cannot be made in place. Labels, annotations and the images
// of containers may change. If resources is true, amounts of cpu and memory that exist in both templates may change as
// well. path is the path of the template.
func InPlaceOnly(old, next *corev1.PodTemplateSpec, resources bool, path *field.Path) field.ErrorList {
	if apiequality.Semantic.DeepEqual(old, next) {
		return nil
	}
	var errs field.ErrorList
	for _, why := range inPlaceObstacles(old, next, resources) {
		errs = append(errs, field.Forbidden(path, "InPlaceOnly cannot change this: "+why))
	}
	return errs
}

// inPlaceObstacles returns the changes of a template that cannot be made in place.
func inPlaceObstacles(old, next *corev1.PodTemplateSpec, resources bool) []string {
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

// levelAmounts makes the amounts of cpu and memory that both lists have equal, so that a comparison ignores their
// changes.
func levelAmounts(was, is corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		amount, before := was[name]
		if _, after := is[name]; before && after {
			is[name] = amount
		}
	}
}
