package conversion

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const labelTrue = "true"

// imageKeys are the annotations of v1alpha1 in place of fields.
func imageKeys() []string {
	return []string{
		apps.AnnotationImagePreDownloadParallelism, apps.AnnotationImagePreDownloadTimeoutSeconds,
		apps.AnnotationImagePreDownloadMinUpdatedReadyPods,
	}
}

// betaInPlace reads the image annotations of v1alpha1. The fields of the same names in a v1alpha1 spec have no effect.
func betaInPlace(flat *pub.InPlaceUpdateStrategy, policy v1beta1.CloneSetPodUpdatePolicy,
	annotations map[string]string,
) *pub.InPlaceUpdateStrategy {
	nested := pub.InPlaceUpdateStrategy{
		ImagePreDownloadParallelism:         readCount(annotations[apps.AnnotationImagePreDownloadParallelism]),
		ImagePreDownloadTimeoutSeconds:      readInt(annotations[apps.AnnotationImagePreDownloadTimeoutSeconds]),
		ImagePreDownloadMinUpdatedReadyPods: readInt(annotations[apps.AnnotationImagePreDownloadMinUpdatedReadyPods]),
	}
	if flat != nil {
		nested.GracePeriodSeconds = flat.GracePeriodSeconds
	}
	inPlace := policy == v1beta1.InPlaceIfPossible || policy == v1beta1.InPlaceOnly
	if flat == nil && !inPlace && nested == (pub.InPlaceUpdateStrategy{}) {
		return nil
	}
	return &nested
}

// alphaInPlace keeps the fields without an annotation in v1alpha1, and returns nil for an empty rest.
func alphaInPlace(nested *pub.InPlaceUpdateStrategy) *pub.InPlaceUpdateStrategy {
	if nested == nil || nested.GracePeriodSeconds == 0 {
		return nil
	}
	return &pub.InPlaceUpdateStrategy{GracePeriodSeconds: nested.GracePeriodSeconds}
}

// showImages updates the image annotations to the values in effect.
func showImages(dst *v1alpha1.CloneSet, rolling *v1beta1.RollingUpdateCloneSet) {
	var images pub.InPlaceUpdateStrategy
	if rolling != nil && rolling.InPlaceUpdateStrategy != nil {
		images = *rolling.InPlaceUpdateStrategy
	}
	show(dst, apps.AnnotationImagePreDownloadParallelism, images.ImagePreDownloadParallelism, readCount,
		func(v intstr.IntOrString) string { return v.String() })
	show(dst, apps.AnnotationImagePreDownloadTimeoutSeconds, images.ImagePreDownloadTimeoutSeconds, readInt, formatInt)
	show(dst, apps.AnnotationImagePreDownloadMinUpdatedReadyPods, images.ImagePreDownloadMinUpdatedReadyPods, readInt,
		formatInt)
}

// show writes, keeps or removes an annotation. A spelling of the same value is kept, and an unreadable value is foreign
// and stays.
func show[T comparable](obj metav1.Object, key string, value *T, read func(string) *T, format func(T) string) {
	current := read(obj.GetAnnotations()[key])
	switch {
	case value == nil && current != nil:
		dropAnnotation(obj, key)
	case value != nil && (current == nil || *current != *value):
		if text := format(*value); hasRoom(obj.GetAnnotations(), key, text) {
			annotate(obj, key, text)
		}
	}
}

// showExclude updates the label to the value in effect.
func showExclude(dst *v1alpha1.CloneSet, exclude bool) {
	shown := dst.Labels[apps.LabelExcludePreparingDelete] == labelTrue
	switch {
	case exclude && !shown:
		if dst.Labels == nil {
			dst.Labels = map[string]string{}
		}
		dst.Labels[apps.LabelExcludePreparingDelete] = labelTrue
	case !exclude && shown:
		delete(dst.Labels, apps.LabelExcludePreparingDelete)
		if len(dst.Labels) == 0 {
			dst.Labels = nil
		}
	}
}

// readInt returns nil unless text is a plain int32.
func readInt(text string) *int32 {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil
	}
	value := int32(number)
	return &value
}

func formatInt(value int32) string { return strconv.FormatInt(int64(value), 10) }

// readCount returns nil for an empty text, otherwise an integer or, for everything else, the string.
func readCount(text string) *intstr.IntOrString {
	if text == "" {
		return nil
	}
	value := intstr.FromString(text)
	if number := readInt(text); number != nil {
		value = intstr.FromInt32(*number)
	}
	return &value
}

func annotate(obj metav1.Object, key, value string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}

func dropAnnotation(obj metav1.Object, key string) {
	annotations := obj.GetAnnotations()
	if _, ok := annotations[key]; !ok {
		return
	}
	delete(annotations, key)
	if len(annotations) == 0 {
		annotations = nil
	}
	obj.SetAnnotations(annotations)
}
