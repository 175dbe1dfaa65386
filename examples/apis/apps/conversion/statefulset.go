package conversion

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const kindStatefulSet = "StatefulSet"

// StatefulSetFieldsOfV1beta1 returns the fields of a StatefulSet's spec missing in v1alpha1, sorted.
func StatefulSetFieldsOfV1beta1() []string {
	return []string{
		"lifecycle", "ordinals", "persistentVolumeClaimRetentionPolicy", "reserveOrdinals", "scaleStrategy", "volumeClaimUpdateStrategy",
	}
}

// betaOnly returns a spec with nothing but these fields.
func betaOnly(spec *v1beta1.StatefulSetSpec) v1beta1.StatefulSetSpec {
	return v1beta1.StatefulSetSpec{
		Lifecycle: spec.Lifecycle, Ordinals: spec.Ordinals, PersistentVolumeClaimRetentionPolicy: spec.PersistentVolumeClaimRetentionPolicy,
		ReserveOrdinals: spec.ReserveOrdinals, ScaleStrategy: spec.ScaleStrategy, VolumeClaimUpdateStrategy: spec.VolumeClaimUpdateStrategy,
	}
}

// StatefulSetToV1beta1 converts and restores the values kept by [StatefulSetToV1alpha1]. The result shares no memory
// with src. An error means that the annotation holds a value allowed in a v1beta1 object and impossible in Go types,
// such as a number of more than 32 bits. The error is a Problem of package decode.
func StatefulSetToV1beta1(src *v1alpha1.StatefulSet) (*v1beta1.StatefulSet, error) {
	src = src.DeepCopy()
	kept := map[string]json.RawMessage{}
	bringBack(src, kept)
	var only v1beta1.StatefulSetSpec
	if len(kept) > 0 {
		encoded, err := json.Marshal(kept)
		if err == nil {
			err = utiljson.Unmarshal(encoded, &only)
		}
		if err != nil {
			return nil, fmt.Errorf("restoring fields of v1beta1: %w", err)
		}
		if len(only.Undecodable) > 0 {
			return nil, only.Undecodable[0]
		}
	}
	dst := &v1beta1.StatefulSet{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Spec: only, Status: src.Status}
	dst.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kindStatefulSet))
	spec := &src.Spec
	dst.Spec.Replicas, dst.Spec.Selector, dst.Spec.Template, dst.Spec.VolumeClaimTemplates = spec.Replicas, spec.Selector, spec.Template, spec.VolumeClaimTemplates
	dst.Spec.ServiceName, dst.Spec.PodManagementPolicy = spec.ServiceName, spec.PodManagementPolicy
	dst.Spec.UpdateStrategy, dst.Spec.RevisionHistoryLimit = spec.UpdateStrategy, spec.RevisionHistoryLimit
	return dst, nil
}

// StatefulSetToV1alpha1 converts, and keeps the fields missing in v1alpha1 in an annotation. The result shares no
// memory with src. An error means that src was not decoded in full, or holds values JSON cannot express, such as an
// IntOrString without a type.
func StatefulSetToV1alpha1(src *v1beta1.StatefulSet) (*v1alpha1.StatefulSet, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	src = src.DeepCopy()
	spec := &src.Spec
	dst := &v1alpha1.StatefulSet{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Status: src.Status, Spec: v1alpha1.StatefulSetSpec{
		Replicas:             spec.Replicas,
		Selector:             spec.Selector,
		Template:             spec.Template,
		VolumeClaimTemplates: spec.VolumeClaimTemplates,
		ServiceName:          spec.ServiceName,
		PodManagementPolicy:  spec.PodManagementPolicy,
		UpdateStrategy:       spec.UpdateStrategy,
		RevisionHistoryLimit: spec.RevisionHistoryLimit,
	}}
	dst.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindStatefulSet))
	fields := map[string]json.RawMessage{}
	encoded, err := json.Marshal(betaOnly(spec))
	if err == nil {
		err = json.Unmarshal(encoded, &fields)
	}
	if err == nil {
		err = putAway(dst, fields)
	}
	if err != nil {
		return nil, fmt.Errorf("keeping fields of v1beta1: %w", err)
	}
	return dst, nil
}

// putAway moves the fields of v1beta1 alone from a spec into the annotation.
func putAway(meta metav1.Object, spec map[string]json.RawMessage) error {
	dropAnnotation(meta, apps.AnnotationV1beta1Only)
	dropAnnotation(meta, apps.AnnotationV1alpha1Only)
	var n note
	for _, key := range StatefulSetFieldsOfV1beta1() {
		raw := spec[key]
		delete(spec, key)
		if decoded(raw) != nil {
			n.Fields = append(n.Fields, keptField{Path: []string{specKey, key}, Kept: raw})
		}
	}
	return n.write(meta, apps.AnnotationV1beta1Only)
}

// bringBack moves the fields from the annotation into a spec without the fields.
func bringBack(meta metav1.Object, spec map[string]json.RawMessage) {
	n := takeNote(meta, apps.AnnotationV1beta1Only)
	dropAnnotation(meta, apps.AnnotationV1alpha1Only)
	for _, field := range n.Fields {
		if len(field.Path) != 2 || field.Path[0] != specKey || !slices.Contains(StatefulSetFieldsOfV1beta1(), field.Path[1]) {
			continue
		}
		key := field.Path[1]
		if decoded(field.Kept) != nil && decoded(field.Shown) == nil && decoded(spec[key]) == nil && hasType(key, field.Kept) {
			spec[key] = field.Kept
		}
	}
}

// hasType reports whether the API server would accept a value in a field of spec. The API server also accepts numbers
// too large for Go types.
func hasType(key string, value json.RawMessage) bool {
	encoded, err := json.Marshal(map[string]json.RawMessage{key: value})
	if err != nil {
		return false
	}
	var spec v1beta1.StatefulSetSpec
	return utiljson.Unmarshal(withSmallNumbers(encoded), &spec) == nil && len(spec.Undecodable) == 0
}

func statefulSetToAlpha(object []byte) ([]byte, error) {
	return moveJSON(object, v1alpha1.GroupVersion.String(), putAway)
}

func statefulSetToBeta(object []byte) ([]byte, error) {
	return moveJSON(object, v1beta1.GroupVersion.String(), func(meta metav1.Object, spec map[string]json.RawMessage) error {
		bringBack(meta, spec)
		return nil
	})
}

// moveJSON moves fields between the spec of a serialised object and its annotations.
func moveJSON(object []byte, apiVersion string, move func(metav1.Object, map[string]json.RawMessage) error) ([]byte, error) {
	const key = "annotations"
	whole, err := split(object)
	if err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	var meta metav1.ObjectMeta
	if raw, ok := whole.metadata[key]; ok {
		if err := json.Unmarshal(raw, &meta.Annotations); err != nil {
			return nil, fmt.Errorf("decoding %s.%s: %w", metadataKey, key, err)
		}
	}
	if err := move(&meta, whole.spec); err != nil {
		return nil, err
	}
	delete(whole.metadata, key)
	if len(meta.Annotations) > 0 {
		if whole.metadata[key], err = json.Marshal(meta.Annotations); err != nil {
			return nil, fmt.Errorf("encoding %s.%s: %w", metadataKey, key, err)
		}
	}
	return whole.in(apiVersion)
}

// statefulSetParts returns the fields as written.
func statefulSetParts(object []byte, _ string) (map[string]any, error) {
	whole, err := split(object)
	if err != nil {
		return nil, err
	}
	parts := map[string]any{}
	for _, key := range StatefulSetFieldsOfV1beta1() {
		parts[specKey+"."+key] = decoded(whole.spec[key])
	}
	return parts, nil
}
