package podwebhook

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// operation is an operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// shapes are the Go structs within a Pod, each with its fields. Structs whose JSON is not an object of their fields,
// such as times and quantities, are left out.
type shapes map[reflect.Type][]member

// member is a field of a struct.
type member struct {
	index  int
	name   string
	inline bool
}

// add adds a type, and the types of its fields.
func (s shapes) add(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		s.add(t.Elem())
		return
	case reflect.Struct:
	default:
		return
	}
	if _, known := s[t]; known || t.NumField() == 0 {
		return
	}
	var members []member
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" && !f.Anonymous {
			return
		}
		if name != "-" {
			// The JSON of a struct contains the fields of an embedded struct without a name of its own.
			members = append(members, member{f.Index[0], name, name == ""})
		}
	}
	s[t] = members
	for f := range t.Fields() {
		s.add(f.Type)
	}
}

// differences collects the operations that turn a value into another value of the same type.
type differences struct {
	shapes     shapes
	operations []operation
}

// difference returns the operations that turn before into after. Fields unknown to the Go types are not changed, not
// even within elements of lists.
func (s shapes) difference(before, after *corev1.Pod) []operation {
	d := differences{shapes: s}
	d.structs("", reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
	return d.operations
}

func (d *differences) set(path string, value reflect.Value) {
	// The operation "add" replaces an existing value.
	d.operations = append(d.operations, operation{Op: "add", Path: path, Value: value.Interface()})
}

// value compares two values of the same type.
func (d *differences) value(path func() string, before, after reflect.Value) {
	was, is := !isNothing(before), !isNothing(after)
	switch {
	case !was && !is:
	case !is:
		d.operations = append(d.operations, operation{Op: "remove", Path: path()})
	case !was:
		d.set(path(), after)
	case after.Kind() == reflect.Pointer:
		if _, ok := d.shapes[after.Type().Elem()]; ok {
			d.structs(path(), before.Elem(), after.Elem())
			return
		}
		d.whole(path, before, after)
	case after.Kind() == reflect.Struct:
		if _, ok := d.shapes[after.Type()]; ok {
			d.structs(path(), before, after)
			return
		}
		d.whole(path, before, after)
	case after.Kind() == reflect.Slice && after.Type().Elem().Kind() != reflect.Uint8:
		d.lists(path(), before, after)
	case after.Type() == reflect.TypeFor[map[string]string]():
		d.maps(path(), before.Interface().(map[string]string), after.Interface().(map[string]string)) //nolint:forcetypeassert // just checked
	default:
		d.whole(path, before, after)
	}
}

func (d *differences) whole(path func() string, before, after reflect.Value) {
	if !reflect.DeepEqual(before.Interface(), after.Interface()) {
		d.set(path(), after)
	}
}

// isNothing reports whether the JSON of an object would omit the value (omitempty).
func isNothing(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

func (d *differences) structs(path string, before, after reflect.Value) {
	for _, m := range d.shapes[after.Type()] {
		if m.inline {
			d.structs(path, before.Field(m.index), after.Field(m.index))
			continue
		}
		d.value(func() string { return path + "/" + m.name }, before.Field(m.index), after.Field(m.index))
	}
}

func (d *differences) maps(path string, before, after map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			d.operations = append(d.operations, operation{Op: "remove", Path: path + "/" + escape(key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if was, ok := before[key]; !ok || was != after[key] {
			d.operations = append(d.operations, operation{Op: "add", Path: path + "/" + escape(key), Value: after[key]})
		}
	}
}

// lists inserts new elements, and compares elements that were in the list before one by one. If elements were removed
// from a list or reordered, the list is replaced as a whole.
func (d *differences) lists(path string, before, after reflect.Value) {
	begun := len(d.operations)
	next := 0 // index into before
	for i := range after.Len() {
		switch element := after.Index(i); {
		case next == before.Len():
			d.set(path+"/-", element)
		case d.same(before.Index(next), element):
			if _, ok := d.shapes[element.Type()]; ok {
				d.structs(path+"/"+strconv.Itoa(i), before.Index(next), element)
			}
			next++
		default:
			d.set(path+"/"+strconv.Itoa(i), element)
		}
	}
	if next < before.Len() {
		d.operations = d.operations[:begun]
		d.set(path, after)
	}
}

// same reports whether two elements are the same element before and after: containers, volumes and env variables are
// identified by name; elements of other types must be equal.
func (d *differences) same(before, after reflect.Value) bool {
	switch before.Type() {
	case reflect.TypeFor[corev1.Container](), reflect.TypeFor[corev1.Volume](), reflect.TypeFor[corev1.EnvVar]():
		return before.FieldByName("Name").String() == after.FieldByName("Name").String()
	}
	return reflect.DeepEqual(before.Interface(), after.Interface())
}

// escape encodes a key for a JSON pointer.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
