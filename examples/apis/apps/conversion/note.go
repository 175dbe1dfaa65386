package conversion

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// note is the content of the annotation. The package comment explains the note.
type note struct {
	When   []string    `json:"when,omitempty"`
	Fields []keptField `json:"fields,omitempty"`
	Empty  []keptField `json:"empty,omitempty"`
}

type keptField struct {
	Path  []string        `json:"path"`
	Shown json.RawMessage `json:"shown,omitempty"`
	Kept  json.RawMessage `json:"kept,omitempty"`
}

// fields is the convertible part of an object: pointers into the object, to read and to write.
type fields struct {
	labels      *map[string]string
	annotations *map[string]string
	// strategies are fields of spec, by their names in JSON: most kinds have the two strategies.
	strategies map[string]any
	// when decides the meaning of an updateStrategy, and of a SidecarSet's namespaces.
	when []string
	// ownLabels and ownAnnotations are written by the kind's conversion.
	ownLabels, ownAnnotations []string
}

func betaFields(obj *v1beta1.CloneSet) fields {
	strategy := &obj.Spec.UpdateStrategy
	when := []string{string(strategy.Type)}
	if strategy.RollingUpdate != nil {
		when = append(when, string(strategy.RollingUpdate.PodUpdatePolicy))
	}
	return fields{
		labels: &obj.Labels, annotations: &obj.Annotations, when: when,
		strategies: map[string]any{scaleKey: &obj.Spec.ScaleStrategy, updateKey: strategy},
		ownLabels:  []string{apps.LabelExcludePreparingDelete}, ownAnnotations: imageKeys(),
	}
}

func alphaFields(obj *v1alpha1.CloneSet) fields {
	strategy := &obj.Spec.UpdateStrategy
	return fields{
		labels: &obj.Labels, annotations: &obj.Annotations, when: []string{string(strategy.Type)},
		strategies: map[string]any{scaleKey: &obj.Spec.ScaleStrategy, updateKey: strategy},
		ownLabels:  []string{apps.LabelExcludePreparingDelete}, ownAnnotations: imageKeys(),
	}
}

const (
	metadataKey    = "metadata"
	annotationsKey = "annotations"
	specKey        = "spec"
	scaleKey       = "scaleStrategy"
	updateKey      = "updateStrategy"
)

// tree returns the fields as decoded JSON, without the two annotations of package conversion.
func (f fields) tree() (map[string]any, error) {
	// Absent maps count as empty, so every key has its own difference.
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, *f.labels)
	maps.Copy(annotations, *f.annotations)
	delete(annotations, apps.AnnotationV1alpha1Only)
	delete(annotations, apps.AnnotationV1beta1Only)
	encoded, err := json.Marshal(map[string]any{
		metadataKey: map[string]any{"labels": labels, "annotations": annotations},
		specKey:     f.strategies,
	})
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	err = json.Unmarshal(encoded, &tree)
	return tree, err
}

// set writes a tree back.
func (f fields) set(tree map[string]any) error {
	encoded, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	var parts struct {
		Metadata struct{ Labels, Annotations map[string]string }
		Spec     map[string]json.RawMessage
	}
	if err := json.Unmarshal(encoded, &parts); err != nil {
		return err
	}
	// A note cannot bring the reserved keys back.
	delete(parts.Metadata.Annotations, apps.AnnotationV1alpha1Only)
	delete(parts.Metadata.Annotations, apps.AnnotationV1beta1Only)
	*f.labels, *f.annotations = noneIfEmpty(parts.Metadata.Labels), noneIfEmpty(parts.Metadata.Annotations)
	for name, target := range f.strategies {
		reflect.ValueOf(target).Elem().SetZero()
		raw, there := parts.Spec[name]
		if !there { // as in a note
			continue
		}
		if err := utiljson.Unmarshal(raw, target); err != nil {
			return err
		}
	}
	return nil
}

func noneIfEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// takeNote removes the annotation and returns its content, or an empty note for an unreadable annotation.
func takeNote(obj metav1.Object, key string) note {
	var n note
	text := obj.GetAnnotations()[key]
	dropAnnotation(obj, key)
	if json.Unmarshal([]byte(text), &n) != nil {
		return note{}
	}
	return n
}

// restore applies the merge rule to f. A note with values of wrong types is out of date as a whole.
func (n note) restore(f fields) error {
	if len(n.Fields) == 0 {
		return nil
	}
	tree, err := f.tree()
	if err != nil {
		return err
	}
	sameStrategy := slices.Equal(n.When, f.when)
	changed := false
	for _, field := range n.Fields {
		depends := len(field.Path) > 1 && field.Path[0] == specKey && slices.Contains([]string{updateKey, namespaceKey, namespaceSelectorKey}, field.Path[1])
		if (sameStrategy || !depends) && f.owns(field) && field.restore(tree) {
			changed = true
		}
	}
	if !changed {
		return nil
	}
	plain, err := f.tree()
	if err != nil {
		return err
	}
	if f.set(tree) != nil {
		return f.set(plain)
	}
	return nil
}

// owns reports whether conversion writes such fields into notes, with a possible value. Any user may write notes.
func (f fields) owns(k keptField) bool {
	if len(k.Path) < 2 {
		return false
	}
	if k.Path[0] == specKey {
		_, known := f.strategies[k.Path[1]]
		return known
	}
	if k.Path[0] != metadataKey || len(k.Path) != 3 {
		return false
	}
	kept := decoded(k.Kept)
	text, isText := kept.(string)
	if kept != nil && !isText {
		return false
	}
	switch k.Path[1] {
	case "labels":
		return slices.Contains(f.ownLabels, k.Path[2]) && len(validation.IsValidLabelValue(text)) == 0
	case "annotations":
		return slices.Contains(f.ownAnnotations, k.Path[2])
	}
	return false
}

// restore puts the kept value in place if the tree has the shown value there, and reports so.
func (k keptField) restore(tree map[string]any) bool {
	parent := tree
	for _, step := range k.Path[:len(k.Path)-1] {
		next, ok := parent[step].(map[string]any)
		if !ok {
			return false
		}
		parent = next
	}
	last := k.Path[len(k.Path)-1]
	shown, kept := decoded(k.Shown), decoded(k.Kept)
	if !reflect.DeepEqual(parent[last], shown) {
		return false
	}
	if kept == nil {
		delete(parent, last)
	} else {
		parent[last] = kept
	}
	return true
}

// decoded returns nil for no value, the same as reading an absent key of a tree.
func decoded(raw json.RawMessage) any {
	var value any
	if len(raw) == 0 || json.Unmarshal(raw, &value) != nil {
		return nil
	}
	return value
}

// writeNote annotates obj with the differences, if any, between the truth and the object converted back.
func writeNote(obj metav1.Object, key string, truth, back fields) error {
	want, err := truth.tree()
	if err != nil {
		return err
	}
	got, err := back.tree()
	if err != nil {
		return err
	}
	n := note{When: back.when}
	if err := n.compare(nil, want, got); err != nil || len(n.Fields) == 0 {
		return err
	}
	return n.write(obj, key)
}

// write annotates obj with as much as there is room for; see the package comment.
func (n note) write(obj metav1.Object, key string) error {
	for len(n.Fields)+len(n.Empty) > 0 {
		encoded, err := json.Marshal(n)
		if err != nil {
			return err
		}
		if hasRoom(obj.GetAnnotations(), key, string(encoded)) {
			annotate(obj, key, string(encoded))
			return nil
		}
		if len(n.Empty) > 0 {
			n.Empty = nil // nothing depends on empty values
			continue
		}
		longest := 0
		for i := range n.Fields {
			if n.Fields[i].size() > n.Fields[longest].size() {
				longest = i
			}
		}
		n.Fields = slices.Delete(n.Fields, longest, longest+1)
	}
	return nil
}

func (k keptField) size() int { return len(k.Shown) + len(k.Kept) }

// hasRoom reports whether the API server would accept the annotations with the new annotation.
func hasRoom(annotations map[string]string, key, value string) bool {
	size := len(key) + len(value)
	for k, v := range annotations {
		if k != key {
			size += len(k) + len(v)
		}
	}
	return size <= apivalidation.TotalAnnotationSizeLimitB
}

// compare adds the differences below path, in the order of their keys.
func (n *note) compare(path []string, want, got map[string]any) error {
	var keys []string
	for key := range want {
		keys = append(keys, key)
	}
	for key := range got {
		if _, both := want[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		at := append(slices.Clone(path), key)
		wantMap, wantIsMap := want[key].(map[string]any)
		gotMap, gotIsMap := got[key].(map[string]any)
		if wantIsMap && gotIsMap {
			if err := n.compare(at, wantMap, gotMap); err != nil {
				return err
			}
			continue
		}
		if reflect.DeepEqual(want[key], got[key]) {
			continue
		}
		field := keptField{Path: at}
		var err error
		if field.Kept, err = encodePresent(want, key); err != nil {
			return err
		}
		if field.Shown, err = encodePresent(got, key); err != nil {
			return err
		}
		n.Fields = append(n.Fields, field)
	}
	return nil
}

func encodePresent(from map[string]any, key string) (json.RawMessage, error) {
	value, ok := from[key]
	if !ok || value == nil {
		return nil, nil
	}
	return json.Marshal(value)
}
