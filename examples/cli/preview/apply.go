package preview

import (
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/cli-runtime/pkg/resource"
)

// applied returns the object that "kubectl apply" would send for a manifest, and the object as stored.
func applied(info *resource.Info) (change, error) {
	sent, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return change{}, fmt.Errorf("%T is not read without types", info.Object)
	}
	sent = sent.DeepCopy()
	stored, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		if info.Namespaced() {
			sent.SetNamespace(info.Namespace)
		}
		return change{changed: sent}, nil
	}
	if err != nil {
		return change{}, err
	}
	before, ok := stored.(*unstructured.Unstructured)
	if !ok {
		return change{}, fmt.Errorf("%T is not read without types", stored)
	}
	changed, err := merged(before, sent)
	return change{changed, before, keptFields(before)}, err
}

// keptFields warns about an object that was applied by the server: merged does not know which fields the last manifest
// had.
func keptFields(stored *unstructured.Unstructured) []string {
	_, isRecorded := stored.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	isApplied := slices.ContainsFunc(stored.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
	if isRecorded || !isApplied {
		return nil
	}
	return []string{"the object was applied with --server-side: a field that the manifest no longer has is shown as kept, and apply would remove the field"}
}

// merged applies a manifest to a stored object: fields of the manifest are set, and fields that the last applied
// manifest had are removed.
func merged(stored, sent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	current, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	modified, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	last := []byte(stored.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(last, modified, current)
	if err != nil {
		return nil, err
	}
	raw, err := jsonpatch.MergePatch(current, patch)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(raw)
}
