package conversion

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// note is the content of the annotation. The package comment explains the note.
type note struct {
	When   []string    `json:"when,omitempty"`
	Fields []keptField `json:"fields,omitempty"`
}

type keptField struct {
	Path  path            `json:"path"`
	Shown json.RawMessage `json:"shown,omitempty"`
	Kept  json.RawMessage `json:"kept,omitempty"`
}

// noteOn returns the key of the note on objects of a version.
func noteOn(v version) path {
	return annotation([...]string{alpha: apps.AnnotationV1beta1Only, beta: apps.AnnotationV1alpha1Only}[v])
}

// takeNote removes the note of a version and returns its content. An unreadable note is empty.
func takeNote(o object, v version) (n note) {
	content := text(o, noteOn(v))
	drop(o, noteOn(v))
	if json.Unmarshal([]byte(content), &n) != nil {
		return note{}
	}
	return n
}

// restore applies the merge rule to an object converted to a version without the note. Any user may write notes.
func (k *kind) restore(n note, o object, v version) {
	same := slices.Equal(n.When, k.circumstances(o, v))
	for _, f := range n.Fields {
		place := k.place(f.Path, v)
		if place == nil || !same && place[0] == specKey && slices.Contains(k.depends, place[1]) {
			continue
		}
		in := parent(o, f.Path)
		if in == nil || !reflect.DeepEqual(noText(get(o, f.Path)), noText(decoded(f.Shown))) || !k.takes(o, v, f) {
			continue
		}
		if decoded(f.Kept) == nil {
			delete(in, f.Path.last())
		} else {
			in[f.Path.last()] = f.Kept
		}
	}
}

// noText makes an empty text nil: no field distinguishes the two.
func noText(value any) any {
	if value == "" {
		return nil
	}
	return value
}

// place returns the place of a version around a path, or nil.
func (k *kind) place(p path, v version) path {
	for _, place := range k.places[v] {
		if len(p) >= len(place) && slices.Equal(place, p[:len(place)]) {
			return place
		}
	}
	return nil
}

// circumstances are the values that decide the meaning of the dependent fields. An absent value is "".
func (k *kind) circumstances(o object, v version) (out []string) {
	for _, p := range k.when[v] {
		switch value := get(o, p).(type) {
		case string:
			out = append(out, value)
		case nil:
			if parent(o, p) != nil {
				out = append(out, "")
			}
		default:
			out = append(out, string(encoded(value)))
		}
	}
	return out
}

// takes reports whether the API server would take a kept value.
func (k *kind) takes(o object, v version, f keptField) bool {
	value, t := decoded(f.Kept), typeAt(k.types[v], f.Path)
	if value == nil || t == nil {
		return t != nil
	}
	if content, isText := value.(string); f.Path[1] == labelsKey {
		return isText && len(validation.IsValidLabelValue(content)) == 0
	}
	for i := range k.moves {
		m := &k.moves[i]
		if m.takes != nil && slices.ContainsFunc(m.places[v], func(p path) bool { return slices.Equal(p, f.Path) }) {
			value = decodable(value)
			if !m.takes(o, value) {
				return false
			}
		}
	}
	return utiljson.Unmarshal(encoded(value), reflect.New(t).Interface()) == nil
}

// typeAt returns the type of a field by its path in JSON, or nil. Maps have all keys.
func typeAt(t reflect.Type, p path) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case len(p) == 0:
		return t
	case t.Kind() == reflect.Map:
		return typeAt(t.Elem(), p[1:])
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			if jsonName(f) == p[0] {
				return typeAt(f.Type, p[1:])
			}
		}
	}
	return nil
}

// compare returns the differences between a value and its counterpart in an object converted back.
func compare(at path, want, got any) (differences []keptField) {
	wanted, isObject := want.(object)
	gotten, areObjects := got.(object)
	if isObject && areObjects {
		keys := maps.Clone(wanted)
		maps.Copy(keys, gotten)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			differences = append(differences, compare(append(slices.Clone(at), key), wanted[key], gotten[key])...)
		}
		return differences
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	f := keptField{Path: at}
	if want != nil {
		f.Kept = encoded(want)
	}
	if got != nil {
		f.Shown = encoded(got)
	}
	return []keptField{f}
}

// differences returns the values of truth lost in back, by path.
func (k *kind) differences(truth, back object, v version) (out []keptField) {
	for _, place := range k.places[v] {
		written := parent(truth, place)[place.last()]
		found := compare(place, get(truth, place), get(back, place))
		if len(found) == 1 && len(found[0].Path) == len(place) && found[0].Kept != nil {
			found[0].Kept = encoded(written) // in its own order
		}
		out = append(out, found...)
	}
	return out
}

// write notes as much as there is room for; see the package comment.
func (n note) write(o object, v version) {
	for len(n.Fields) > 0 {
		content := string(encoded(n))
		if hasRoom(o, noteOn(v), content) {
			put(o, noteOn(v), content)
			return
		}
		heaviest := slices.MaxFunc(n.Fields, func(a, b keptField) int { return a.weight() - b.weight() })
		n.Fields = slices.DeleteFunc(n.Fields, func(f keptField) bool { return slices.Equal(f.Path, heaviest.Path) })
	}
}

// weight orders fields for lack of room: nothing depends on values that say nothing.
func (f keptField) weight() int {
	if f.saysNothing() {
		return apivalidation.TotalAnnotationSizeLimitB
	}
	return len(f.Shown) + len(f.Kept)
}

func (f keptField) saysNothing() bool { return isEmpty(decoded(f.Shown)) && isEmpty(decoded(f.Kept)) }

// hasRoom reports whether the API server would accept the annotations with the new annotation.
func hasRoom(o object, key path, content string) bool {
	size := len(key.last()) + len(content)
	for other, value := range parent(o, key) {
		if value, ok := value.(string); ok && other != key.last() {
			size += len(other) + len(value)
		}
	}
	return size <= apivalidation.TotalAnnotationSizeLimitB
}
