package validation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// PullThrough returns the errors in apps.AnnotationPullThrough of a job for images.
func PullThrough(obj metav1.Object) field.ErrorList {
	switch way, ok := obj.GetAnnotations()[apps.AnnotationPullThrough]; {
	case !ok, way == apps.PullThroughAgent, way == apps.PullThroughKubelet:
		return nil
	default:
		path := field.NewPath("metadata", "annotations").Key(apps.AnnotationPullThrough)
		return field.ErrorList{field.NotSupported(path, way, []string{apps.PullThroughAgent, apps.PullThroughKubelet})}
	}
}
