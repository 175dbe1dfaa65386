package conversion

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const (
	kindSidecarSet       = "SidecarSet"
	namespaceKey         = "namespace"
	namespaceSelectorKey = "namespaceSelector"
	customVersionKey     = "customVersion"
	oldStrategyKey       = "strategy"
)

// sidecarSetKeys are the fields read by conversion in a SidecarSet's spec.
func sidecarSetKeys() []string {
	return []string{namespaceKey, namespaceSelectorKey, customVersionKey, oldStrategyKey}
}

// SidecarSetToV1beta1 converts and restores the values kept by [SidecarSetToV1alpha1]. The result shares no memory with
// src. An error means that src holds values JSON cannot express.
//
// spec.namespace becomes a namespaceSelector, and takes precedence over an existing namespaceSelector. The label
// [apps.LabelSidecarSetCustomVersion] becomes spec.customVersion. spec.strategy is dropped.
func SidecarSetToV1beta1(src *v1alpha1.SidecarSet) (*v1beta1.SidecarSet, error) {
	src = src.DeepCopy()
	note := takeNote(src, apps.AnnotationV1beta1Only)
	dropAnnotation(src, apps.AnnotationV1alpha1Only)
	dst := plainSidecarSetBeta(src)
	if err := note.restore(sidecarSetBetaFields(dst)); err != nil {
		return nil, fmt.Errorf("restoring fields of v1beta1: %w", err)
	}
	back := plainSidecarSetAlpha(dst)
	if err := writeNote(dst, apps.AnnotationV1alpha1Only, sidecarSetAlphaFields(src), sidecarSetAlphaFields(back)); err != nil {
		return nil, fmt.Errorf("keeping fields of v1alpha1: %w", err)
	}
	return dst, nil
}

// SidecarSetToV1alpha1 converts and restores the values kept by [SidecarSetToV1beta1]. The result shares no memory with
// src. An error means that src holds values JSON cannot express, or was not decoded in full.
func SidecarSetToV1alpha1(src *v1beta1.SidecarSet) (*v1alpha1.SidecarSet, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	src = src.DeepCopy()
	note := takeNote(src, apps.AnnotationV1alpha1Only)
	dropAnnotation(src, apps.AnnotationV1beta1Only)
	dst := plainSidecarSetAlpha(src)
	if err := note.restore(sidecarSetAlphaFields(dst)); err != nil {
		return nil, fmt.Errorf("restoring fields of v1alpha1: %w", err)
	}
	back := plainSidecarSetBeta(dst)
	if err := writeNote(dst, apps.AnnotationV1beta1Only, sidecarSetBetaFields(src), sidecarSetBetaFields(back)); err != nil {
		return nil, fmt.Errorf("keeping fields of v1beta1: %w", err)
	}
	return dst, nil
}

func sidecarSetToBeta(object []byte) ([]byte, error) {
	return convertJSON(object, v1beta1.GroupVersion.String(), sidecarSetKeys(), SidecarSetToV1beta1)
}

func sidecarSetToAlpha(object []byte) ([]byte, error) {
	return convertJSON(object, v1alpha1.GroupVersion.String(), sidecarSetKeys(), SidecarSetToV1alpha1)
}

// sidecarSetParts returns the fields as read by the Go types of a SidecarSet.
func sidecarSetParts(object []byte, apiVersion string) (map[string]any, error) {
	if apiVersion == v1alpha1.GroupVersion.String() {
		return readParts[v1alpha1.SidecarSet](object, sidecarSetKeys())
	}
	return readParts[v1beta1.SidecarSet](object, sidecarSetKeys())
}

// plainSidecarSetBeta converts without the annotation of this package.
func plainSidecarSetBeta(src *v1alpha1.SidecarSet) *v1beta1.SidecarSet {
	src = src.DeepCopy()
	dst := &v1beta1.SidecarSet{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Status: src.Status}
	dst.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kindSidecarSet))
	spec := &src.Spec
	dst.Spec = v1beta1.SidecarSetSpec{
		Selector:             spec.Selector,
		NamespaceSelector:    spec.NamespaceSelector,
		InitContainers:       spec.InitContainers,
		Containers:           spec.Containers,
		Volumes:              spec.Volumes,
		UpdateStrategy:       spec.UpdateStrategy,
		InjectionStrategy:    spec.InjectionStrategy,
		ImagePullSecrets:     spec.ImagePullSecrets,
		RevisionHistoryLimit: spec.RevisionHistoryLimit,
		PatchPodMetadata:     spec.PatchPodMetadata,
		CustomVersion:        src.Labels[apps.LabelSidecarSetCustomVersion],
	}
	if spec.Namespace != "" {
		dst.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: spec.Namespace}}
	}
	dropLabel(dst, apps.LabelSidecarSetCustomVersion)
	return dst
}

// plainSidecarSetAlpha converts without the annotation of this package.
func plainSidecarSetAlpha(src *v1beta1.SidecarSet) *v1alpha1.SidecarSet {
	src = src.DeepCopy()
	dst := &v1alpha1.SidecarSet{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Status: src.Status}
	dst.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindSidecarSet))
	spec := &src.Spec
	dst.Spec = v1alpha1.SidecarSetSpec{
		Selector:             spec.Selector,
		NamespaceSelector:    spec.NamespaceSelector,
		InitContainers:       spec.InitContainers,
		Containers:           spec.Containers,
		Volumes:              spec.Volumes,
		UpdateStrategy:       spec.UpdateStrategy,
		InjectionStrategy:    spec.InjectionStrategy,
		ImagePullSecrets:     spec.ImagePullSecrets,
		RevisionHistoryLimit: spec.RevisionHistoryLimit,
		PatchPodMetadata:     spec.PatchPodMetadata,
	}
	dropLabel(dst, apps.LabelSidecarSetCustomVersion)
	// The API server refuses a conversion that makes a label of an invalid value.
	if version := spec.CustomVersion; version != "" && len(validation.IsValidLabelValue(version)) == 0 {
		if dst.Labels == nil {
			dst.Labels = map[string]string{}
		}
		dst.Labels[apps.LabelSidecarSetCustomVersion] = version
	}
	return dst
}

func dropLabel(obj metav1.Object, key string) {
	labels := obj.GetLabels()
	delete(labels, key)
	obj.SetLabels(noneIfEmpty(labels))
}

func sidecarSetBetaFields(obj *v1beta1.SidecarSet) fields {
	return fields{
		labels: &obj.Labels, annotations: &obj.Annotations, ownLabels: []string{apps.LabelSidecarSetCustomVersion},
		strategies: map[string]any{namespaceSelectorKey: &obj.Spec.NamespaceSelector, customVersionKey: &obj.Spec.CustomVersion},
	}
}

// sidecarSetAlphaFields depend on v1beta1's selector: without an edit of the selector, the namespace and the additional
// selector keep their old values.
func sidecarSetAlphaFields(obj *v1alpha1.SidecarSet) fields {
	shown, _ := json.Marshal(obj.Spec.NamespaceSelector) // only strings
	return fields{
		labels: &obj.Labels, annotations: &obj.Annotations, ownLabels: []string{apps.LabelSidecarSetCustomVersion}, when: []string{string(shown)},
		strategies: map[string]any{namespaceKey: &obj.Spec.Namespace, namespaceSelectorKey: &obj.Spec.NamespaceSelector},
	}
}
