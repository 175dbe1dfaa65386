package fields_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

func object() fields.Object {
	return fields.Object{
		"spec":   fields.Object{"n": int64(3), "f": float64(4), "s": "text", "b": true, "p": "50%", "list": []any{"a", fields.Object{"k": "v"}, int64(1)}, "null": nil},
		"status": fields.Object{"conditions": []any{fields.Object{"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "t"}}},
	}
}

func TestReads(t *testing.T) {
	o := object()
	got := map[string]any{
		"a number":              fields.Int(o, "spec.n"),
		"a float":               fields.Int(o, "spec.f"),
		"the second path":       fields.Int(o, "spec.none", "spec.n"),
		"null counts as none":   fields.IntOr(o, 7, "spec.null"),
		"a text is no number":   fields.Int(o, "spec.s"),
		"a text":                fields.String(o, "spec.s"),
		"a number is no text":   fields.String(o, "spec.n"),
		"true":                  fields.Bool(o, "spec.b"),
		"a path through a text": fields.String(o, "spec.s.more"),
		"a percentage":          fields.IntOrString(o, "spec.p").String(),
		"a count":               fields.IntOrString(o, "spec.n").String(),
		"objects of a list":     fields.List(o, "spec.list"),
		"texts of a list":       fields.Strings(o, "spec.list"),
		"conditions":            fields.Conditions(o),
	}
	want := map[string]any{
		"a number": int64(3), "a float": int64(4), "the second path": int64(3), "null counts as none": int64(7), "a text is no number": int64(0),
		"a text": "text", "a number is no text": "", "true": true, "a path through a text": "", "a percentage": "50%", "a count": "3",
		"objects of a list": []fields.Object{{"k": "v"}}, "texts of a list": []string{"a"},
		"conditions": []fields.Condition{{Type: "Ready", Status: "True", Reason: "R", Message: "m", Since: "t"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if fields.IntOrString(o, "spec.none") != nil {
		t.Error("a missing percentage is read")
	}
}

func TestSet(t *testing.T) {
	o := fields.Object{}
	if err := fields.Set(o, true, "spec.updateStrategy.paused"); err != nil {
		t.Fatal(err)
	}
	if !fields.Bool(o, "spec.updateStrategy.paused") {
		t.Errorf("the object is %v", o)
	}
	if err := fields.Set(object(), true, "spec.s.more"); err == nil {
		t.Error("a text is no obstacle")
	}
}

// A percentage is read from the first path that the version of the object has.
func ExampleIntOrString() {
	old := fields.Object{"spec": fields.Object{"updateStrategy": fields.Object{"partition": "20%"}}}
	fmt.Println(fields.IntOrString(old, "spec.updateStrategy.rollingUpdate.partition", "spec.updateStrategy.partition"))
	// Output:
	// 20%
}

func TestSelector(t *testing.T) {
	for _, tc := range []struct {
		name     string
		selector any
		want     string
		matches  bool // the labels app=web
		err      bool
	}{
		{"missing", nil, "", false, false},
		{"empty", fields.Object{}, "", true, false},
		{"labels", fields.Object{"matchLabels": fields.Object{"app": "web"}}, "app=web", true, false},
		{"not a map", "app=web", "", false, true},
		{"a wrong type", fields.Object{"matchLabels": "app"}, "", false, true},
		{"a wrong operator", fields.Object{"matchExpressions": []any{fields.Object{"key": "app", "operator": "Odd"}}}, "", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := fields.Selector(fields.Object{"spec": fields.Object{"selector": tc.selector}}, "spec.selector")
			if (err != nil) != tc.err {
				t.Fatalf("error %v", err)
			}
			if err == nil && (got.String() != tc.want || got.Matches(labels.Set{"app": "web"}) != tc.matches) {
				t.Errorf("selector %q, matches %t", got, got.Matches(labels.Set{"app": "web"}))
			}
		})
	}
}
