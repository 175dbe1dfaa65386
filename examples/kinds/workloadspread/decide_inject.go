package workloadspread

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// mark is the content of the annotation on a Pod that names the Pod's subset.
type mark struct {
	Name   string `json:"name"`
	Subset string `json:"subset"`
	// UID is the random key of the Pod's place, if the Pod had no name yet when the webhook chose the subset.
	UID string `json:"uid,omitempty"`
}

// longestMark is the largest length in bytes of a mark, the annotation that names the Pod's subset. Marks written by
// this package are shorter.
const longestMark = 1 << 10

// marked returns the mark of a Pod, which is the annotation with the subset; ok is false if the Pod has no valid
// mark. The content must be checked, because any client can write the annotation.
func marked(pod *corev1.Pod) (m mark, ok bool) {
	text := pod.Annotations[apps.AnnotationMatchedWorkloadSpread]
	if text == "" || len(text) > longestMark {
		return mark{}, false
	}
	if m, ok = plainMark(text); !ok && json.Unmarshal([]byte(text), &m) != nil || m.Subset == "" {
		return mark{}, false
	}
	return m, true
}

// plainMark parses a mark (the annotation with the subset) in the format that this package writes. plainMark is ten
// times as fast as a JSON decoder, because a reconciliation reads the marks of all Pods.
func plainMark(text string) (m mark, ok bool) {
	rest, isPlain := strings.CutPrefix(text, `{"name":"`)
	if !isPlain || strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' }) {
		return mark{}, false
	}
	if m.Name, rest, ok = strings.Cut(rest, `","subset":"`); !ok {
		return mark{}, false
	}
	if m.Subset, rest, ok = strings.Cut(rest, `"`); !ok {
		return mark{}, false
	}
	if uid, hasUID := strings.CutPrefix(rest, `,"uid":"`); hasUID {
		if m.UID, rest, ok = strings.Cut(uid, `"`); !ok {
			return mark{}, false
		}
	}
	if rest != "}" || strings.Contains(m.Name, `"`) {
		return mark{}, false
	}
	return m, true
}

// markOf returns the mark of a Pod, the annotation with the subset, if the mark names the given WorkloadSpread.
func markOf(pod *corev1.Pod, spread string) (mark, bool) {
	m, ok := marked(pod)
	if !ok || m.Name != spread {
		return mark{}, false
	}
	return m, true
}

func (m mark) text() string {
	text, _ := json.Marshal(m) //nolint:errchkjson // strings can always be encoded
	return string(text)
}

// inject changes a new Pod for a subset: first tolerations, preferences and the requirement for the Node are added,
// then the patch is applied, then the mark (the annotation with the subset) is set. A second call changes nothing. If
// an error is returned, the Pod is not changed.
func inject(pod *corev1.Pod, to *subset, m mark) error {
	out := pod.DeepCopy()
	for i := range to.tolerations {
		if !contains(out.Spec.Tolerations, to.tolerations[i]) {
			out.Spec.Tolerations = append(out.Spec.Tolerations, to.tolerations[i])
		}
	}
	out.Spec.Affinity = requiring(out.Spec.Affinity, to.required)
	for i := range to.preferred {
		if out.Spec.Affinity == nil {
			out.Spec.Affinity = &corev1.Affinity{}
		}
		if out.Spec.Affinity.NodeAffinity == nil {
			out.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
		}
		terms := &out.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if !contains(*terms, to.preferred[i]) {
			*terms = append(*terms, to.preferred[i])
		}
	}
	if len(to.patch) > 0 {
		var err error
		if out, err = patched(out, to.patch); err != nil {
			return fmt.Errorf("patching the Pod for subset %s: %w", to.name, err)
		}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[apps.AnnotationMatchedWorkloadSpread] = m.text()
	*pod = *out
	return nil
}

func contains[T any](list []T, wanted T) bool {
	return slices.ContainsFunc(list, func(item T) bool { return apiequality.Semantic.DeepEqual(item, wanted) })
}

// requiring returns a copy of a Pod's affinity to which a requirement for the Node is added. The terms of the affinity
// are alternatives, so the requirement is added to each term. A term without requirements matches no Node, and is not
// changed. If the requirement is empty, nothing is added.
func requiring(affinity *corev1.Affinity, required *corev1.NodeSelectorTerm) *corev1.Affinity {
	if required == nil || len(required.MatchExpressions)+len(required.MatchFields) == 0 {
		return affinity
	}
	out := affinity.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.NodeAffinity == nil {
		out.NodeAffinity = &corev1.NodeAffinity{}
	}
	node := out.NodeAffinity
	if node.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	terms := &node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(*terms) == 0 {
		*terms = []corev1.NodeSelectorTerm{*required.DeepCopy()}
		return out
	}
	for i := range *terms {
		term := &(*terms)[i]
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue
		}
		term.MatchExpressions = joined(term.MatchExpressions, required.MatchExpressions)
		term.MatchFields = joined(term.MatchFields, required.MatchFields)
	}
	return out
}

func joined(list, more []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	for i := range more {
		if !contains(list, more[i]) {
			list = append(list, *more[i].DeepCopy())
		}
	}
	return list
}

// patched returns a copy of a Pod to which a strategic merge patch was applied. The fields that identify the Pod
// cannot be patched. If the patch sets another priority class, the priority and the preemption policy are cleared:
// the API server sets the new priority, and would refuse the old preemption policy.
func patched(pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	if change, ok := plainPatch(patch); ok {
		out := pod.DeepCopy()
		out.Labels, out.Annotations = changed(out.Labels, change.Labels), changed(out.Annotations, change.Annotations)
		return out, nil
	}
	return strategicallyPatched(pod, patch)
}

// strategicallyPatched does the same as patched, for patches of any fields: the Pod is encoded as JSON, patched and
// decoded.
func strategicallyPatched(pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	before, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		return nil, err
	}
	out.TypeMeta, out.Status = pod.TypeMeta, pod.Status
	out.Name, out.GenerateName, out.Namespace = pod.Name, pod.GenerateName, pod.Namespace
	out.UID, out.OwnerReferences = pod.UID, pod.OwnerReferences
	if out.Spec.PriorityClassName != pod.Spec.PriorityClassName {
		out.Spec.Priority = nil
		if apiequality.Semantic.DeepEqual(out.Spec.PreemptionPolicy, pod.Spec.PreemptionPolicy) {
			out.Spec.PreemptionPolicy = nil
		}
	}
	return out, nil
}

// looksLike reports whether the patch of a subset would change no field of a Pod except annotations.
func looksLike(pod *corev1.Pod, of *subset) bool {
	if len(of.patch) == 0 {
		return true
	}
	out, err := patched(pod, of.patch)
	if err != nil {
		return false
	}
	out.Annotations = pod.Annotations
	return apiequality.Semantic.DeepEqual(out, pod)
}

// metadata contains changes of labels and annotations; a nil value removes the key.
type metadata struct {
	Labels      map[string]*string `json:"labels,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"`
}

// marking returns the changes for a Pod that is older than its WorkloadSpread: the mark (the annotation with the
// subset) and, if whole is true, the labels and annotations of the subset's patch. All other parts of a patch apply
// only to new Pods.
func marking(pod *corev1.Pod, of *subset, m mark, whole bool) metadata {
	change := metadata{Annotations: map[string]*string{}}
	if whole && len(of.patch) > 0 {
		if out, err := patched(pod, of.patch); err == nil {
			change.Labels, change.Annotations = changes(pod.Labels, out.Labels), changes(pod.Annotations, out.Annotations)
		}
	}
	text := m.text()
	change.Annotations[apps.AnnotationMatchedWorkloadSpread] = &text
	return change
}

// plainPatch parses a patch that only sets and removes labels and annotations; ok is false if the patch has other
// fields, null in place of an object, or directives. Most subsets have such a patch, which can be applied much faster
// than other patches.
func plainPatch(patch []byte) (change metadata, ok bool) {
	var whole map[string]map[string]map[string]*string
	if json.Unmarshal(patch, &whole) != nil || len(whole) != 1 || whole["metadata"] == nil {
		return metadata{}, false
	}
	for field, values := range whole["metadata"] {
		if values == nil || field != "labels" && field != "annotations" {
			return metadata{}, false
		}
		for key := range values {
			if strings.HasPrefix(key, "$") {
				return metadata{}, false
			}
		}
	}
	return metadata{Labels: whole["metadata"]["labels"], Annotations: whole["metadata"]["annotations"]}, true
}

// changed returns a copy of labels or annotations after the changes; a nil value removes a key.
func changed(of map[string]string, changes map[string]*string) map[string]string {
	if of == nil && len(changes) > 0 {
		of = map[string]string{}
	}
	for key, value := range changes {
		if value == nil {
			delete(of, key)
		} else {
			of[key] = *value
		}
	}
	return of
}

func changes(before, after map[string]string) map[string]*string {
	out := map[string]*string{}
	for key := range before {
		if _, kept := after[key]; !kept {
			out[key] = nil
		}
	}
	for key, value := range after {
		if was, had := before[key]; !had || was != value {
			out[key] = &value
		}
	}
	return out
}
