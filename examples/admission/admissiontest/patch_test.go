package admissiontest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStepsApplyStrictly(t *testing.T) {
	for _, tc := range []struct {
		name string
		step step
		want Tree // nil if the step does not apply
	}{
		{"a new key", step{Op: "add", Path: "b", Value: 2.0}, Tree{"a": Tree{"x": 1.0}, "l": []any{1.0}, "b": 2.0}},
		{"a key below", step{Op: "add", Path: "a/y", Value: 2.0}, Tree{"a": Tree{"x": 1.0, "y": 2.0}, "l": []any{1.0}}},
		{"a removed key", step{Op: "remove", Path: "a/x"}, Tree{"a": Tree{}, "l": []any{1.0}}},
		{"a replaced key", step{Op: "replace", Path: "a/x", Value: 2.0}, Tree{"a": Tree{"x": 2.0}, "l": []any{1.0}}},
		{"a replaced element", step{Op: "replace", Path: "l/0", Value: 2.0}, Tree{"a": Tree{"x": 1.0}, "l": []any{2.0}}},
		{"an appended element", step{Op: "add", Path: "l/-", Value: 2.0}, Tree{"a": Tree{"x": 1.0}, "l": []any{1.0, 2.0}}},
		{"no parent", step{Op: "add", Path: "b/c", Value: 2.0}, nil},
		{"a parent without keys", step{Op: "add", Path: "a/x/y", Value: 2.0}, nil},
		{"nothing to remove", step{Op: "remove", Path: "b"}, nil},
		{"nothing to replace", step{Op: "replace", Path: "b", Value: 2.0}, nil},
		{"no such element", step{Op: "replace", Path: "l/1", Value: 2.0}, nil},
		{"an element before the first", step{Op: "replace", Path: "l/-1", Value: 2.0}, nil},
		{"an inserted element", step{Op: "add", Path: "l/0", Value: 2.0}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			after, ok := tc.step.at(Tree{"a": Tree{"x": 1.0}, "l": []any{1.0}}, strings.Split(tc.step.Path, "/"))
			if ok != (tc.want != nil) {
				t.Fatalf("applies: %t, to %v", ok, after)
			}
			if diff := cmp.Diff(any(tc.want), after); ok && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
