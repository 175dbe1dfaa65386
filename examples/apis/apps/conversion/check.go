package conversion

import (
	"encoding/json"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// roomy is how much can be written twice into an annotation, in bytes, whatever has to be escaped.
const roomy = 256 << 10 / 8

// Check returns what a serialised CloneSet would lose on its way to the other version and back: what has no place there and for which
// there is no room in the annotation. Admission refuses such objects, because [JSON] converts whatever is stored.
func Check(object []byte) field.ErrorList {
	return check(object, JSON, readParts[v1alpha1.CloneSet], readParts[v1beta1.CloneSet])
}

func check(object []byte, convert func([]byte, string) ([]byte, error), alphaParts, betaParts func([]byte) (map[string]any, error)) field.ErrorList {
	var meta metav1.TypeMeta
	if err := utiljson.Unmarshal(object, &meta); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("apiVersion"), field.OmitValueType{}, err.Error())}
	}
	alpha, beta := v1alpha1.GroupVersion.String(), v1beta1.GroupVersion.String()
	other, partsOf := alpha, betaParts
	if meta.APIVersion == alpha {
		other, partsOf = beta, alphaParts
	}
	if (meta.APIVersion == alpha || meta.APIVersion == beta) && fits(object) {
		return nil
	}
	back, err := convert(object, other)
	if err == nil {
		back, err = convert(back, meta.APIVersion)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(specKey), field.OmitValueType{}, "cannot be converted: "+err.Error())}
	}
	return lost(partsOf, object, back, other)
}

// fits reports whether what conversion reads is so little that nothing can be lost. It is wrong about nothing else.
func fits(object []byte) bool {
	whole, err := split(object)
	if err != nil {
		return false
	}
	size := 0
	for _, part := range []map[string]json.RawMessage{chosen(whole.metadata, metadataKeys[:]), chosen(whole.spec, specKeys[:])} {
		for _, raw := range part {
			size += len(raw)
		}
	}
	return size <= roomy
}

// readParts returns what conversion reads of an object, by path, as its Go types have it.
func readParts[T any](object []byte) (map[string]any, error) {
	_, obj, err := read[T](object)
	if err != nil {
		return nil, err
	}
	var f fields
	switch obj := any(obj).(type) {
	case *v1beta1.CloneSet:
		f = betaFields(obj)
	case *v1alpha1.CloneSet:
		f = alphaFields(obj)
	case *v1beta1.DaemonSet:
		f = daemonSetBetaFields(obj)
	case *v1alpha1.DaemonSet:
		f = daemonSetAlphaFields(obj)
	}
	delete(*f.annotations, apps.AnnotationV1alpha1Only)
	delete(*f.annotations, apps.AnnotationV1beta1Only)
	return map[string]any{
		metadataKey + ".labels": *f.labels, metadataKey + ".annotations": *f.annotations,
		specKey + "." + scaleKey: f.strategies[scaleKey], specKey + "." + updateKey: f.strategies[updateKey],
	}, nil
}

func lost(partsOf func([]byte) (map[string]any, error), object, back []byte, other string) field.ErrorList {
	was, err := partsOf(object)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(specKey), field.OmitValueType{}, err.Error())}
	}
	is, err := partsOf(back)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(specKey), field.OmitValueType{}, "after conversion: "+err.Error())}
	}
	var errs field.ErrorList
	for _, path := range []string{metadataKey + ".labels", metadataKey + ".annotations", specKey + "." + scaleKey, specKey + "." + updateKey} {
		if !apiequality.Semantic.DeepEqual(was[path], is[path]) {
			errs = append(errs, field.Invalid(field.NewPath(path), field.OmitValueType{}, fmt.Sprintf(
				"has parts that %s keeps in an annotation, and all annotations together are more than 256 KiB then", other)))
		}
	}
	return errs
}
