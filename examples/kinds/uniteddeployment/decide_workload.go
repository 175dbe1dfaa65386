package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// write is a change of an object, or a deletion.
type write struct {
	workload // the object, which can also be a Pod

	patch *patch // nil for a deletion
}

// titleOf names an object as users do: kind, name and subset.
func titleOf(w workload) string {
	return fmt.Sprintf("%s %s of subset %s", reflect.TypeOf(w).Elem().Name(), w.GetName(), w.GetLabels()[apps.LabelSubsetName])
}

// patch is a patch of an object.
type patch struct {
	Type types.PatchType
	Body any
	// Whole is true if the patch replaces the whole spec, because the revision or the subset's patch has changed.
	Whole bool
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// changeOf returns the patch that makes the existing workload have equal to the workload want; nil if no patch is
// needed.
func changeOf(have, want workload, n numbers) *patch {
	is, labels, annotations := partsOf(have), want.GetLabels(), want.GetAnnotations()
	if have.GetLabels()[apps.LabelSubsetRevision] != labels[apps.LabelSubsetRevision] || !sameText(have.GetAnnotations(), annotations[apps.AnnotationSubsetPatch]) {
		body := []operation{{"add", "/metadata/uid", have.GetUID()}}
		body = append(body, additions("/metadata/labels", have.GetLabels(), labels)...)
		body = append(body, additions("/metadata/annotations", have.GetAnnotations(), annotations)...)
		return &patch{Type: types.JSONPatchType, Whole: true, Body: append(body, operation{"add", "/spec", partsOf(want).spec})}
	}
	spec, rolling := map[string]any{}, map[string]any{}
	if is.replicas != n.replicas {
		spec["replicas"] = n.replicas
	}
	if n.kept != nil && (is.kept == nil || *is.kept != *n.kept) {
		rolling["partition"] = *n.kept
	}
	if n.unavailable != nil && (is.unavailable == nil || *is.unavailable != *n.unavailable) {
		rolling["maxUnavailable"] = *n.unavailable
	}
	if len(rolling) > 0 {
		strategy := "updateStrategy"
		if _, ok := have.(*appsv1.Deployment); ok {
			strategy = "strategy"
		}
		spec[strategy] = map[string]any{"rollingUpdate": rolling}
	}
	if len(spec) == 0 {
		return nil
	}
	return &patch{Type: types.MergePatchType, Body: map[string]any{"metadata": map[string]any{"uid": have.GetUID()}, "spec": spec}}
}

// additions returns operations that set keys of a map; all other keys are kept.
func additions(path string, have, want map[string]string) (body []operation) {
	if len(have) == 0 {
		return []operation{{"add", path, want}}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, ok := have[key]; !ok || value != want[key] {
			body = append(body, operation{"add", path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key), want[key]})
		}
	}
	return body
}

// sameText reports whether a workload's annotation contains the patch of the subset, in any JSON formatting.
func sameText(annotations map[string]string, text string) bool {
	was := annotations[apps.AnnotationSubsetPatch]
	if was == text {
		return true
	}
	var a, b any
	return json.Unmarshal([]byte(was), &a) == nil && json.Unmarshal([]byte(text), &b) == nil && reflect.DeepEqual(a, b)
}

// relabelling returns the patch that marks a Pod as reserved, or removes this mark.
func relabelling(pod *corev1.Pod, label string) *patch {
	return &patch{Type: types.MergePatchType, Body: map[string]any{"metadata": map[string]any{"uid": pod.UID, "labels": map[string]string{apps.LabelReservedPod: label}}}}
}
