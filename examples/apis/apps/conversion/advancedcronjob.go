package conversion

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const (
	kindAdvancedCronJob = "AdvancedCronJob"
	templateKey         = "template"
	imageListKey        = "imageListPullJobTemplate"
)

// AdvancedCronJobToV1beta1 converts and restores the values kept by [AdvancedCronJobToV1alpha1]. The result shares no
// memory with src. An error means: src was not decoded in full.
func AdvancedCronJobToV1beta1(src *v1alpha1.AdvancedCronJob) (*v1beta1.AdvancedCronJob, error) {
	if broadcast := src.Spec.Template.BroadcastJobTemplate; broadcast != nil && len(broadcast.Spec.Undecodable) > 0 {
		problem := broadcast.Spec.Undecodable[0]
		problem.Path = "spec.template.broadcastJobTemplate." + problem.Path
		return nil, problem
	}
	return throughJSON[v1beta1.AdvancedCronJob](src, kindAdvancedCronJob, v1alpha1.GroupVersion.String(), cronJobToBeta)
}

// AdvancedCronJobToV1alpha1 converts, and keeps a template of ImageListPullJobs in an annotation. The result shares no
// memory with src. An error means: src was not decoded in full.
func AdvancedCronJobToV1alpha1(src *v1beta1.AdvancedCronJob) (*v1alpha1.AdvancedCronJob, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	return throughJSON[v1alpha1.AdvancedCronJob](src, kindAdvancedCronJob, v1beta1.GroupVersion.String(), cronJobToAlpha)
}

func cronJobToAlpha(object []byte) ([]byte, error) {
	return moveJSON(object, v1alpha1.GroupVersion.String(), putImageListAway)
}

func cronJobToBeta(object []byte) ([]byte, error) {
	return moveJSON(object, v1beta1.GroupVersion.String(), func(meta metav1.Object, spec map[string]json.RawMessage) error {
		bringImageListBack(meta, spec)
		return nil
	})
}

// imageListPath is the path of the template known only to v1beta1.
func imageListPath() []string { return []string{specKey, templateKey, imageListKey} }

// templatesOf returns the templates of a spec, or nil.
func templatesOf(spec map[string]json.RawMessage) map[string]json.RawMessage {
	var templates map[string]json.RawMessage
	if json.Unmarshal(spec[templateKey], &templates) != nil {
		return nil
	}
	return templates
}

// putImageListAway moves the template into the annotation.
func putImageListAway(meta metav1.Object, spec map[string]json.RawMessage) error {
	dropAnnotation(meta, apps.AnnotationV1beta1Only)
	dropAnnotation(meta, apps.AnnotationV1alpha1Only)
	templates := templatesOf(spec)
	kept, ok := templates[imageListKey]
	if !ok {
		return nil
	}
	delete(templates, imageListKey)
	spec[templateKey] = encodedValue(templates)
	if decoded(kept) == nil {
		return nil
	}
	return note{Fields: []keptField{{Path: imageListPath(), Kept: kept}}}.write(meta, apps.AnnotationV1beta1Only)
}

// bringImageListBack moves the template from the annotation into a spec without the template.
func bringImageListBack(meta metav1.Object, spec map[string]json.RawMessage) {
	n := takeNote(meta, apps.AnnotationV1beta1Only)
	dropAnnotation(meta, apps.AnnotationV1alpha1Only)
	for _, field := range n.Fields {
		templates := templatesOf(spec)
		if templates == nil || !slices.Equal(field.Path, imageListPath()) || decoded(templates[imageListKey]) != nil || !isImageList(field.Kept) {
			continue
		}
		templates[imageListKey] = field.Kept
		spec[templateKey] = encodedValue(templates)
	}
}

// isImageList reports whether the API server would accept a value as the template, apart from numbers too large for Go
// types.
func isImageList(value json.RawMessage) bool {
	var template v1beta1.ImageListPullJobTemplateSpec
	var fields struct {
		Spec map[string]json.RawMessage `json:"spec"`
	}
	if decoded(value) == nil || utiljson.Unmarshal(withSmallNumbers(value), &template) != nil || json.Unmarshal(value, &fields) != nil {
		return false
	}
	_, hasImages := fields.Spec["images"]
	_, hasCompletion := fields.Spec["completionPolicy"]
	return fields.Spec == nil || hasImages && hasCompletion
}

// cronJobParts returns the template as written.
func cronJobParts(object []byte, _ string) (map[string]any, error) {
	whole, err := split(object)
	if err != nil {
		return nil, err
	}
	return map[string]any{specKey + "." + templateKey + "." + imageListKey: decoded(templatesOf(whole.spec)[imageListKey])}, nil
}
