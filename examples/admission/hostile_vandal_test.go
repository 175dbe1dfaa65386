package admission_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/internal/hostile"
)

// place is a value at a path in an object, with functions that replace or remove the value.
type place struct {
	path   string
	value  any
	set    func(any)
	remove func() // nil in lists
}

// places lists all values of an object, in an order derived from the object alone.
func places(path string, value any, set func(any), remove func(), out []place) []place {
	out = append(out, place{path, value, set, remove})
	switch value := value.(type) {
	case tree:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			out = places(path+"/"+key, value[key], func(v any) { value[key] = v }, func() { delete(value, key) }, out)
		}
	case []any:
		for i := range value {
			out = places(fmt.Sprint(path, "/", i), value[i], func(v any) { value[i] = v }, nil, out)
		}
	}
	return out
}

// vandalise makes a random change to an object that users could store while no webhooks exist, and returns a
// description of the change.
func vandalise(r *rand.Rand, object tree) string {
	switch r.IntN(12) {
	case 0:
		return annotate(r, object)
	case 1:
		return forgeNote(r, object)
	}
	free := r.IntN(3) > 0
	all := slices.DeleteFunc(places("", object["spec"], nil, nil, nil), func(p place) bool {
		schemaless := strings.HasPrefix(p.path, "/template") || strings.HasPrefix(p.path, "/volumeClaimTemplates")
		return p.set == nil || !schemaless && !free
	})
	p := all[r.IntN(len(all))]
	if p.remove != nil && r.IntN(4) == 0 {
		p.remove()
		return "no " + p.path
	}
	schemaless := strings.HasPrefix(p.path, "/template/") || strings.HasPrefix(p.path, "/volumeClaimTemplates/")
	value := junk(r, p.value, schemaless)
	p.set(value)
	return fmt.Sprintf("%s=%.60v", p.path, value)
}

// annotate adds an annotation of a random size, up to the limit for all annotations.
func annotate(r *rand.Rand, object tree) string {
	size := []int{1, 1000, 200_000, 261_000, 262_000}[r.IntN(5)]
	object["metadata"].(tree)["annotations"] = tree{"a": strings.Repeat("x", size)}
	return fmt.Sprint("annotations of ", size)
}

// forgeNote adds an annotation with the key under which conversion stores fields, with valid or invalid content.
func forgeNote(r *rand.Rand, object tree) string {
	paths := [][]string{
		{"metadata", "labels", "bad key!"},
		{"metadata", "labels", apps.LabelExcludePreparingDelete},
		{"metadata", "labels"},
		{"metadata", "annotations", apps.AnnotationImagePreDownloadTimeoutSeconds},
		{"metadata", "annotations", "a"},
		{"spec", "updateStrategy", "type"},
		{"spec", "updateStrategy"},
		{"spec", "scaleStrategy", "disablePVCReuse"},
		{"spec", "template"},
		{"spec"},
		{"spec", "updateStrategy", "rollingUpdate", "PARTITION"},
		{"spec", "updateStrategy", "inPlaceUpdateStrategy"},
		{"spec", "reserveOrdinals"},
		{"spec", "lifecycle"},
	}
	field := tree{"path": paths[r.IntN(len(paths))]}
	if r.IntN(2) == 0 {
		field["shown"] = junk(r, nil, true)
	}
	if r.IntN(4) > 0 {
		field["kept"] = junk(r, nil, true)
	}
	whens := [][]string{nil, {"RollingUpdate", "InPlaceIfPossible"}, {"InPlaceIfPossible"}, {"OnDelete"}}
	note, err := json.Marshal(tree{"when": whens[r.IntN(len(whens))], "fields": []any{field}})
	if err != nil {
		panic(err)
	}
	key := []string{apps.AnnotationV1alpha1Only, apps.AnnotationV1beta1Only}[r.IntN(2)]
	object["metadata"].(tree)["annotations"].(tree)[key] = string(note)
	return fmt.Sprintf("%s %s", key, note)
}

// junk returns a random replacement for a value. Only parts without a schema get unknown keys.
func junk(r *rand.Rand, was any, schemaless bool) any {
	values := []any{
		nil, nil, "", 0.0, -1.0, 3.0, 1e10,
		tree{},
		[]any{},
		[]any{nil},
		tree{"a": nil},
		true, "1e3", "30%", 1.5, "OnDelete", "InPlaceOnly", "ReCreate",
		"5", "oops", "1e-200000000", strings.Repeat("x", r.IntN(300)),
		[]any{tree{"name": "n"}, tree{"name": nil}},
		1,
	}
	switch n := r.IntN(len(values) + 6); {
	case n < len(values):
		return values[n]
	case n < len(values)+3 && schemaless:
		if object, ok := was.(tree); ok {
			key := []string{"unknown/~1", "Spec", "NAME", "Containers", "", "a/b~c", "ports"}[r.IntN(7)]
			object[key] = values[r.IntN(len(values))]
			return object
		}
	case n == len(values)+3:
		if list, ok := was.([]any); ok && len(list) > 0 {
			return append(slices.Clone(list), list[0])
		}
	case n == len(values)+4:
		return strings.Repeat("long", 75_000)
	case n == len(values)+5 && schemaless:
		return hostile.Nested(r.IntN(150))
	}
	return was
}
