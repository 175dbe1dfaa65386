package conversion

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// noteKeys returns the key of the note read on the way to a version, and the key of the note written.
func noteKeys(apiVersion string) (brought, written string) {
	if strings.HasSuffix(apiVersion, "/v1beta1") {
		return apps.AnnotationV1beta1Only, apps.AnnotationV1alpha1Only
	}
	return apps.AnnotationV1alpha1Only, apps.AnnotationV1beta1Only
}

// emptyValues returns the written values of a spec's part without a meaning, such as false, that the Go type leaves
// out. plain is the part as written by the Go type.
func emptyValues(path []string, written, plain any) (out []keptField) {
	switch written := written.(type) {
	case map[string]any:
		typed, _ := plain.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(written)) {
			at := append(slices.Clone(path), key)
			if same, kept := typed[key]; kept {
				out = append(out, emptyValues(at, written[key], same)...)
			} else if isEmpty(written[key]) {
				out = append(out, keptField{Path: at, Kept: encodedValue(written[key])})
			}
		}
	case []any:
		if typed, ok := plain.([]any); ok && len(typed) == len(written) {
			for i := range written {
				out = append(out, emptyValues(append(slices.Clone(path), strconv.Itoa(i)), written[i], typed[i])...)
			}
		}
	}
	return out
}

// isEmpty reports whether a value is the zero value of its type, or contains only zero values.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			if !isEmpty(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(value) == 0
	case json.Number:
		return value == "0"
	}
	return value == false || value == ""
}

// convertEmpty carries empty values of the source over to the converted object. src is the source as its Go type S, and
// D is the converted Go type. Values in the source's note return to their places, and values missing in src are noted.
func convertEmpty[S, D any](source parts, src *S, converted parts, apiVersion string, keys []string) error {
	brought, written := noteKeys(apiVersion)
	annotations, err := annotationsOf(source)
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Annotations: annotations}
	restoreEmpty[D](converted.spec, keys, takeNote(&meta, brought).Empty)
	empties, err := emptyIn(source, src, keys)
	if err != nil || len(empties) == 0 {
		return err
	}
	if meta.Annotations, err = annotationsOf(converted); err != nil {
		return err
	}
	n := takeNote(&meta, written)
	n.Empty = empties
	if err := n.write(&meta, written); err != nil {
		return err
	}
	converted.metadata[annotationsKey] = encodedValue(meta.Annotations)
	return nil
}

// emptyIn returns the empty values of the source left out by its Go type.
func emptyIn[S any](source parts, src *S, keys []string) ([]keptField, error) {
	encoded, err := json.Marshal(src)
	if err != nil {
		return nil, err
	}
	plain, err := split(encoded)
	if err != nil {
		return nil, err
	}
	var out []keptField
	for _, key := range keys {
		raw, ok := source.spec[key]
		if !ok {
			continue
		}
		value, err := numbered(raw)
		if err != nil {
			return nil, err
		}
		typed := map[string]any{}
		if raw, ok := plain.spec[key]; ok {
			typed[key] = decoded(raw)
		}
		out = append(out, emptyValues([]string{specKey}, map[string]any{key: value}, typed)...)
	}
	return slices.DeleteFunc(out, func(field keptField) bool { return !hasField(reflect.TypeFor[S](), field.Path) }), nil
}

func annotationsOf(p parts) (annotations map[string]string, err error) {
	if raw, ok := p.metadata[annotationsKey]; ok {
		err = json.Unmarshal(raw, &annotations)
	}
	return annotations, err
}

// restoreEmpty writes empty values back into the spec of an object of type D: each at its path if the path is free, and
// all values of a spec field only if D's reading stays the same. Any user may write notes, so a field is read once,
// however many values are noted for the field.
func restoreEmpty[D any](spec map[string]json.RawMessage, keys []string, empties []keptField) {
	for _, key := range keys {
		of := slices.DeleteFunc(slices.Clone(empties), func(field keptField) bool {
			return len(field.Path) < 2 || field.Path[0] != specKey || field.Path[1] != key || !hasField(reflect.TypeFor[D](), field.Path)
		})
		if len(of) == 0 {
			continue
		}
		tree := map[string]any{}
		if raw, ok := spec[key]; ok {
			value, err := numbered(raw)
			if err != nil {
				continue
			}
			tree[key] = value
		}
		for _, field := range of {
			if kept, err := numbered(field.Kept); err == nil && isEmpty(kept) {
				putEmpty(tree, field.Path[1:], kept)
			}
		}
		next := maps.Clone(spec)
		if value, ok := tree[key]; ok {
			next[key] = encodedValue(value)
		}
		if sameMeaning[D](spec, next, key) {
			maps.Copy(spec, next)
		}
	}
}

// putEmpty puts a value at a free path, if the path's parents exist.
func putEmpty(at any, path []string, value any) {
	for _, step := range path[:len(path)-1] {
		switch inner := at.(type) {
		case map[string]any:
			at = inner[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(inner) {
				return
			}
			at = inner[i]
		}
	}
	last := path[len(path)-1]
	if parent, ok := at.(map[string]any); ok {
		if _, taken := parent[last]; !taken {
			parent[last] = value
		}
	}
}

// sameMeaning reports whether two specs of D with a different key mean the same to D.
func sameMeaning[D any](a, b map[string]json.RawMessage, key string) bool {
	var written [2]json.RawMessage
	for i, spec := range []map[string]json.RawMessage{a, b} {
		obj := new(D)
		encoded, err := json.Marshal(map[string]any{specKey: chosen(spec, []string{key})})
		if err != nil || utiljson.Unmarshal(encoded, obj) != nil {
			return false
		}
		if encoded, err = json.Marshal(obj); err != nil {
			return false
		}
		whole, err := split(encoded)
		if err != nil {
			return false
		}
		written[i] = whole.spec[key]
	}
	return bytes.Equal(written[0], written[1])
}

// numbered decodes JSON, with numbers as written.
func numbered(raw json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// hasField reports whether a Go type has a field at a path of JSON.
func hasField(t reflect.Type, path []string) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(path) == 0 {
		return true
	}
	switch t.Kind() {
	case reflect.Slice:
		return hasField(t.Elem(), path[1:])
	case reflect.Struct:
		for field := range t.Fields() {
			switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
			case name == path[0]:
				return hasField(field.Type, path[1:])
			case name == "" && field.Anonymous && hasField(field.Type, path):
				return true
			}
		}
	}
	return false
}
