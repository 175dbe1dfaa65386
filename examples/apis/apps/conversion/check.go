package conversion

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1alpha1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1alpha1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// roomy is how much can be written twice into an annotation, in bytes, whatever has to be escaped.
const roomy = 256 << 10 / 8

// Check returns the parts of a serialised object that a round trip through the second version would lose: parts without
// a place there and without room in the annotation. Admission refuses such objects, because [JSON] converts every
// stored object.
func Check(object []byte) field.ErrorList {
	var meta metav1.TypeMeta
	if err := utiljson.Unmarshal(object, &meta); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("apiVersion"), field.OmitValueType{}, err.Error())}
	}
	k, ok := kindNamed(meta.Kind)
	alpha, beta := k.versions()
	other := alpha
	if meta.APIVersion == alpha {
		other = beta
	}
	if ok && (meta.APIVersion == alpha || meta.APIVersion == beta) && fits(object, k.specKeys) {
		return nil
	}
	back, err := JSON(object, other)
	if err == nil {
		back, err = JSON(back, meta.APIVersion)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(specKey), field.OmitValueType{}, "cannot be converted: "+err.Error())}
	}
	return lost(k, object, back, meta.APIVersion, other)
}

// fits reports whether the parts read by conversion are so small that nothing can be lost. A false answer proves
// nothing.
func fits(object []byte, specKeys []string) bool {
	whole, err := split(object)
	if err != nil {
		return false
	}
	size := 0
	for _, part := range []map[string]json.RawMessage{chosen(whole.metadata, metadataKeys[:]), chosen(whole.spec, specKeys)} {
		for _, raw := range part {
			size += len(raw)
		}
	}
	return size <= roomy
}

// cloneSetParts returns the parts as in the Go types of a CloneSet.
func cloneSetParts(object []byte, apiVersion string) (map[string]any, error) {
	if apiVersion == v1alpha1.GroupVersion.String() {
		return readParts[v1alpha1.CloneSet](object, specKeys[:])
	}
	return readParts[v1beta1.CloneSet](object, specKeys[:])
}

// readParts returns the parts read by conversion, by path, as in the Go types.
func readParts[T any](object []byte, keys []string) (map[string]any, error) {
	_, obj, err := read[T](object, keys)
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
	case *v1beta1.SidecarSet:
		f = sidecarSetBetaFields(obj)
	case *v1alpha1.SidecarSet:
		f = sidecarSetAlphaFields(obj)
	case *policyv1beta1.PodUnavailableBudget:
		f = budgetBetaFields(obj)
	case *policyv1alpha1.PodUnavailableBudget:
		f = budgetAlphaFields(obj)
	}
	delete(*f.annotations, apps.AnnotationV1alpha1Only)
	delete(*f.annotations, apps.AnnotationV1beta1Only)
	out := map[string]any{metadataKey + ".labels": *f.labels, metadataKey + ".annotations": *f.annotations}
	for _, key := range keys {
		out[specKey+"."+key] = f.strategies[key]
	}
	return out, nil
}

func lost(k kind, object, back []byte, apiVersion, other string) field.ErrorList {
	was, err := k.parts(object, apiVersion)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(specKey), field.OmitValueType{}, err.Error())}
	}
	is, err := k.parts(back, apiVersion)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(specKey), field.OmitValueType{}, "after conversion: "+err.Error())}
	}
	var errs field.ErrorList
	for _, path := range slices.Sorted(maps.Keys(was)) {
		if !apiequality.Semantic.DeepEqual(was[path], is[path]) {
			errs = append(errs, field.Invalid(field.NewPath(path), field.OmitValueType{}, fmt.Sprintf(
				"has parts that %s keeps in an annotation, and all annotations together are more than 256 KiB then", other)))
		}
	}
	return errs
}
