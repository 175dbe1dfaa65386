package inplaceupdate

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/reason"
)

// maxReasons is the highest number of unequal fields named by a refusal. Further unequal fields are only counted.
const maxReasons = 20

// differences names the fields in which two templates differ; the result has at least one reason. differences runs only
// for unequal templates, so its speed does not matter.
func differences(from, to *corev1.PodTemplateSpec) reason.List {
	d := differ{}
	d.compare("", reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem())
	switch {
	case d.count == 0:
		d.add("spec", reflect.ValueOf(from.Spec), reflect.ValueOf(to.Spec))
	case d.count > maxReasons:
		d.named = append(d.named, reason.Reason{
			Code: ImmutableField, Remedy: "recreate the Pod",
			Detail: fmt.Sprintf("and %d more that cannot change on a live Pod", d.count-maxReasons),
		})
	}
	return d.named
}

// differ collects the paths of unequal fields.
type differ struct {
	named reason.List
	count int // number of all unequal fields, named or only counted
}

func (d *differ) add(path string, from, to reflect.Value) {
	if d.count++; d.count > maxReasons {
		return
	}
	d.named = append(d.named, reason.Reason{
		Code: ImmutableField, Path: path, Old: render(from), New: render(to),
		Detail: "cannot change on a live Pod", Remedy: "recreate the Pod",
	})
}

// compare records the innermost fields that differ and that a path can name.
func (d *differ) compare(path string, from, to reflect.Value) {
	if equality.Semantic.DeepEqual(from.Interface(), to.Interface()) {
		return
	}
	switch {
	case from.Kind() == reflect.Struct && !isLeaf(from.Type()):
		d.compareFields(path, from, to)
	case from.Kind() == reflect.Pointer && !from.IsNil() && !to.IsNil():
		d.compare(path, from.Elem(), to.Elem())
	case from.Kind() == reflect.Slice && from.Type().Elem().Kind() == reflect.Struct:
		d.compareEntries(path, from, to)
	case from.Kind() == reflect.Map && from.Type().Key().Kind() == reflect.String:
		d.compareKeys(path, from, to)
	default:
		d.add(path, from, to)
	}
}

// isLeaf reports whether a struct is a single value for users, such as a quantity or a time, with its own JSON form.
// The Go fields of such a struct mean nothing to users.
func isLeaf(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

func (d *differ) compareFields(path string, from, to reflect.Value) {
	for i := range from.NumField() {
		name, inlined := jsonName(from.Type().Field(i))
		at := path
		if !inlined {
			at = join(path, name)
		}
		d.compare(at, from.Field(i), to.Field(i))
	}
}

func jsonName(f reflect.StructField) (name string, inlined bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if strings.Contains(options, "inline") || (f.Anonymous && name == "") {
		return "", true
	}
	if name == "" {
		name = f.Name
	}
	return name, false
}

// compareEntries pairs list entries by name if the entries have names, otherwise by position.
func (d *differ) compareEntries(path string, from, to reflect.Value) {
	if !hasName(from.Type().Elem()) {
		d.compareByIndex(path, from, to)
		return
	}
	seen := map[string]reflect.Value{}
	for i := range to.Len() {
		seen[to.Index(i).FieldByName("Name").String()] = to.Index(i)
	}
	before := d.count
	for i := range from.Len() {
		name := from.Index(i).FieldByName("Name").String()
		at := path + "[" + name + "]"
		if entry, ok := seen[name]; ok {
			d.compare(at, from.Index(i), entry)
			delete(seen, name)
		} else {
			d.add(at, from.Index(i), reflect.Value{})
		}
	}
	for i := range to.Len() {
		name := to.Index(i).FieldByName("Name").String()
		if _, isNew := seen[name]; isNew {
			d.add(path+"["+name+"]", reflect.Value{}, to.Index(i))
			delete(seen, name)
		}
	}
	if d.count == before { // the lists have the same entries in a different order, or two entries have the same name
		d.add(path, from, to)
	}
}

func hasName(t reflect.Type) bool {
	f, ok := t.FieldByName("Name")
	return ok && f.Type.Kind() == reflect.String && strings.HasPrefix(f.Tag.Get("json"), "name")
}

func (d *differ) compareByIndex(path string, from, to reflect.Value) {
	for i := range max(from.Len(), to.Len()) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= from.Len():
			d.add(at, reflect.Value{}, to.Index(i))
		case i >= to.Len():
			d.add(at, from.Index(i), reflect.Value{})
		default:
			d.compare(at, from.Index(i), to.Index(i))
		}
	}
}

func (d *differ) compareKeys(path string, from, to reflect.Value) {
	before := d.count
	keys := map[string]reflect.Value{}
	for _, m := range []reflect.Value{from, to} {
		for _, key := range m.MapKeys() {
			keys[key.String()] = key
		}
	}
	for _, name := range sortedKeys(keys) {
		a, b := from.MapIndex(keys[name]), to.MapIndex(keys[name])
		if a.IsValid() && b.IsValid() && equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
			continue
		}
		d.add(path+"["+name+"]", a, b)
	}
	if d.count == before {
		d.add(path, from, to)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// render formats a value as users write the value in YAML.
func render(v reflect.Value) string {
	if !v.IsValid() || v.IsZero() {
		return ""
	}
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return shorten(fmt.Sprint(v.Interface()))
	}
	return shorten(strings.Trim(string(raw), `"`))
}

func sortedKeys(m map[string]reflect.Value) []string { return slices.Sorted(maps.Keys(m)) }
