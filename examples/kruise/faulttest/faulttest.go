// Package faulttest checks that a kind's controller and admission find the same invalid values in a spec.
package faulttest

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/reason"
)

// Sides are the two readers of a spec: the controller and admission. O is the type of the objects.
type Sides[O any] struct {
	// Object returns objects with the decoded spec, in all variants to check: with and without defaults. If ok is
	// false, admission cannot decode the spec.
	Object func(spec []byte) (objects []O, ok bool)
	// Resolve returns the faults that the controller finds in an object.
	Resolve func(O) (problems, warnings judge.Faults)
	// Create returns the errors with which admission refuses a new object.
	Create func(context.Context, O) (field.ErrorList, error)
	// Own lists the errors that only admission may report: errors about names, about further objects, and about
	// absent values that defaulting sets. Each entry is a path, or a path with the type of the error.
	Own []string
}

// Fuzz checks that both sides find the same values at the same paths in any decodable spec, and that each side finds
// the same values when called twice. An input of the fuzz test contains a spec as JSON, and edits. Each edit is three
// bytes: two bytes choose a node of the JSON, and the third byte chooses the node's new value.
func Fuzz[O any](f *testing.F, kind Sides[O]) {
	f.Helper()
	f.Fuzz(func(t *testing.T, spec, edits []byte) {
		spec = edited(spec, edits)
		objects, ok := kind.Object(spec)
		again, _ := kind.Object(spec)
		for i := range objects {
			problems, warnings := kind.Resolve(objects[i])
			if !reflect.DeepEqual(again[i], objects[i]) {
				t.Errorf("changed by being looked at (-before +after):\n%s", cmp.Diff(again[i], objects[i]))
			}
			problemsAgain, warningsAgain := kind.Resolve(again[i])
			if diff := cmp.Diff([]reason.List{problems.Reasons(), warnings.Reasons()},
				[]reason.List{problemsAgain.Reasons(), warningsAgain.Reasons()}); diff != "" {
				t.Errorf("(-first +second look):\n%s", diff)
			}
			if !ok {
				continue
			}
			errs, err := kind.Create(t.Context(), objects[i])
			if err != nil {
				t.Fatal(err)
			}
			if twice := quotedTwice(errs); twice != nil && !bytes.Contains(spec, []byte(`\"`)) {
				t.Errorf("quoted twice: %v", twice)
			}
			refused := slices.DeleteFunc(errs,
				func(err *field.Error) bool { return begins(err.Field+": "+err.Type.String(), kind.Own) })
			found := append(reported(problems), reported(warnings)...)
			if diff := cmp.Diff(values(judge.Refused(refused)), values(found)); diff != "" {
				t.Errorf("%s (-refused by admission +reported by the controller):\n%s", spec, diff)
			}
		}
	})
}

// quotedTwice returns an error whose value is a text with quotes, which the message puts in quotes again.
func quotedTwice(errs field.ErrorList) *field.Error {
	for _, err := range errs {
		if text, ok := err.BadValue.(string); ok {
			if _, err2 := strconv.Unquote(text); err2 == nil {
				return err
			}
		}
	}
	return nil
}

// reported returns the reasons that admission must report, too: all reasons in faults, except values that have no
// effect because of a feature gate, and errors in templates that the API server validates. Quotes around a text are
// removed.
func reported(faults judge.Faults) (list reason.List) {
	for _, fault := range faults {
		if fault.Refusal == nil {
			continue
		}
		for _, why := range (judge.Faults{fault}).Reasons() {
			if text, ok := fault.Refusal.BadValue.(string); ok && text == why.New {
				why.New = judge.Refused(field.ErrorList{fault.Refusal})[0].New
			}
			list = append(list, why)
		}
	}
	return list
}

func begins(text string, with []string) bool {
	return slices.ContainsFunc(with, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// values returns the paths and values of reasons, sorted and without duplicates.
func values(list reason.List) []string {
	set := map[string]bool{}
	for _, why := range list {
		set[why.Path+" = "+why.New] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// mostEdits limits the number of edits of an input, so that no input takes long.
const mostEdits = 40

// edited returns the JSON of spec after the edits.
func edited(spec, edits []byte) []byte {
	var tree any
	if len(edits) < 3 || json.Unmarshal(spec, &tree) != nil {
		return spec
	}
	for range min(len(edits)/3, mostEdits) {
		places := placesIn(tree, func(v any) { tree = v })
		at := places[(int(edits[0])<<8|int(edits[1]))%len(places)]
		next := edit(at.value, edits[2])
		at.set(next)
		edits = edits[3:]
		if list, isList := next.([]any); isList && len(list) > apps.MaxTerms {
			break // copying the elements of a very long list would take too long
		}
	}
	out, err := json.Marshal(tree)
	if err != nil {
		return spec
	}
	return out
}

// place is a node of a JSON tree.
type place struct {
	value any
	set   func(any)
}

func placesIn(value any, set func(any)) []place {
	places := []place{{value, set}}
	switch node := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			places = append(places, placesIn(node[key], func(v any) { node[key] = v })...)
		}
	case []any:
		for i := range node[:min(len(node), 10)] {
			places = append(places, placesIn(node[i], func(v any) { node[i] = v })...)
		}
	}
	return places
}

// edit returns the value that takes the place of old; choice selects the value.
func edit(old any, choice byte) any {
	others := []any{
		nil, true, false, -1, 0, 1, 5, 101, 2147483647, 1e12, "", "x", "5", "-5", "-5%", "0%", ".5%", "20%", "101%", "2147483647%", "999999999999%", "few", "no key",
		map[string]any{},
		[]any{},
		[]any{nil},
		[]any{"x", "x"},
		map[string]any{"x": "y"},
		strings.Repeat("x", 300),
		"RollingUpdate", "OnDelete", "Never", "Always", "Exists", "NotIn",
	}
	list, isList := old.([]any)
	switch i := int(choice) % (len(others) + 2); {
	case i < len(others):
		return others[i]
	case !isList || len(list) == 0:
		return old
	case i == len(others):
		return append(slices.Clone(list), list[0])
	default:
		return slices.Repeat(list[:1], apps.MaxTerms+1)
	}
}

// Problems compares a spec's problems with want, and checks that admission reports each of the problems too.
func Problems(t *testing.T, want []string, problems judge.Faults, refused field.ErrorList) {
	t.Helper()
	got, said := texts(problems.Refusals()), texts(refused)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, message := range got {
		if !slices.Contains(said, message) {
			t.Errorf("admission does not say %q, but %q", message, said)
		}
	}
}

func texts(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}
