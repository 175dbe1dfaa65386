package conversion

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// note is the content of the annotation that keeps values of the other version. The package comment describes the
// content.
type note struct {
	When   []string    `json:"when,omitempty"`
	Fields []keptField `json:"fields,omitempty"`
}

type keptField struct {
	Path  path            `json:"path"`
	Shown json.RawMessage `json:"shown,omitempty"`
	Kept  json.RawMessage `json:"kept,omitempty"`
}

// noteOn returns the path of the note on objects of the given version.
func noteOn(v int) path {
	return annotation([...]string{alpha: apps.AnnotationV1beta1Only, beta: apps.AnnotationV1alpha1Only}[v])
}

// takeNote removes the note of a version and returns its content. A note that cannot be read counts as empty.
func takeNote(o object, v int) (n note) {
	content := text(o, noteOn(v))
	drop(o, noteOn(v))
	if json.Unmarshal([]byte(content), &n) != nil {
		return note{}
	}
	return n
}

// restore restores fields from a note, by the rules in the package comment. The object was converted to the version v
// without the note. The note must not be trusted, because any user may write notes.
func (k *kind) restore(n note, o object, v int) {
	same := slices.Equal(n.When, k.circumstances(o, v))
	for _, f := range n.Fields {
		place := k.place(f.Path, v)
		if place == nil || !same && place[0] == specKey && slices.Contains(k.depends, place[1]) {
			continue
		}
		in, shown := parent(o, f.Path), decoded(f.Shown)
		if shown == "" { // shown is empty if the value is missing
			shown = nil
		}
		switch {
		case in == nil || !reflect.DeepEqual(get(o, f.Path), shown) || !k.accepts(o, v, f):
		case decoded(f.Kept) == nil:
			drop(o, f.Path)
		default:
			in[f.Path.last()] = f.Kept
		}
	}
}

// place returns the entry of places that contains a path, or nil.
func (k *kind) place(p path, v int) path {
	for _, place := range k.places[v] {
		if len(p) >= len(place) && slices.Equal(place, p[:len(place)]) {
			return place
		}
	}
	return nil
}

// circumstances returns the values on which the meaning of other fields depends, as stored in the field When of a note.
func (k *kind) circumstances(o object, v int) (out []string) {
	for _, p := range k.when[v] {
		if parent(o, p) != nil {
			out = append(out, letters(get(o, p)))
		}
	}
	return out
}

// accepts reports whether the API server would accept a kept value at its path.
func (k *kind) accepts(o object, v int, f keptField) bool {
	value, t := decoded(f.Kept), typeAt(k.types[v], f.Path)
	if value == nil || t == nil {
		return t != nil
	}
	if content, isText := value.(string); f.Path[1] == labelsKey {
		return isText && len(validation.IsValidLabelValue(content)) == 0
	}
	if k.place(f.Path, 1-v) == nil { // a field that the other version does not have
		value = decodable(value)
		if k.takes != nil && !k.takes(o, value) {
			return false
		}
	}
	return utiljson.Unmarshal(encoded(value), reflect.New(t).Interface()) == nil
}

// typeAt returns the type of the field at a path of JSON keys, or nil. A map has a value for any key.
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
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == p[0] {
				return typeAt(f.Type, p[1:])
			}
		}
	}
	return nil
}

// differences returns the values in truth that are missing in back, sorted by path.
func (k *kind) differences(truth, back object, v int) (out []keptField) {
	for _, place := range k.places[v] {
		written := parent(truth, place)[place.last()]
		found := compare(place, get(truth, place), get(back, place))
		if len(found) == 1 && len(found[0].Path) == len(place) && found[0].Kept != nil {
			found[0].Kept = encoded(written) // keeps the order of the keys in the value
		}
		out = append(out, found...)
	}
	return out
}

func compare(at path, want, got any) (out []keptField) {
	wanted, isObject := want.(object)
	gotten, areObjects := got.(object)
	if !isObject || !areObjects {
		if !reflect.DeepEqual(want, got) {
			out = append(out, keptField{at, present(got), present(want)})
		}
		return out
	}
	keys := maps.Clone(wanted)
	maps.Copy(keys, gotten)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, compare(append(slices.Clone(at), key), wanted[key], gotten[key])...)
	}
	return out
}

func present(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	return encoded(value)
}

// write writes the note onto an object. Fields that do not fit are left out, as described in the package comment.
func (n note) write(o object, v int) {
	for ; len(n.Fields) > 0; n.Fields = n.Fields[1:] {
		content := string(encoded(n))
		if hasRoom(o, noteOn(v), content) {
			put(o, noteOn(v), content)
			return
		}
		slices.SortStableFunc(n.Fields, func(a, b keptField) int { return b.weight() - a.weight() })
	}
}

// weight orders the fields that are left out if the note is too large: first fields whose loss changes nothing, then
// long fields.
func (f keptField) weight() int {
	if f.saysNothing() {
		return apivalidation.TotalAnnotationSizeLimitB
	}
	return len(f.Shown) + len(f.Kept)
}

// saysNothing reports whether both values mean the same as a missing value in most fields, such as false or an empty
// list. The number 0 is not such a value.
func (f keptField) saysNothing() bool {
	nothing := []string{"", "null", "false", `""`, "{}", "[]"}
	return slices.Contains(nothing, string(f.Shown)) && slices.Contains(nothing, string(f.Kept))
}

// hasRoom reports whether the API server would accept the total size of the annotations if a key had the given content.
func hasRoom(o object, key path, content string) bool {
	size := len(key.last()) + len(content)
	for other, value := range parent(o, key) {
		if other != key.last() {
			size += len(other) + len(letters(value))
		}
	}
	return size <= apivalidation.TotalAnnotationSizeLimitB
}
