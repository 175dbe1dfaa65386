package decode_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/decode"
)

// spec resembles the spec of a workload.
type spec struct {
	Replicas int32                          `json:"replicas,omitempty"`
	Template corev1.PodTemplateSpec         `json:"template"`
	Claims   []corev1.PersistentVolumeClaim `json:"claims,omitempty"`
	Own      tolerant                       `json:"own,omitzero"`
}

// tolerant is a struct whose own decoder leaves out undecodable fields.
type tolerant struct {
	Template corev1.PodTemplateSpec `json:"template"`
}

func (t *tolerant) UnmarshalJSON(data []byte) error {
	type plain tolerant
	_, err := decode.Fields(data, (*plain)(t), "own")
	return err
}

func TestObject(t *testing.T) {
	cpu := func(value string) string {
		return `{"replicas":1,"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":` + value + `}}}]}}}`
	}
	const at = "template.spec.containers[0].resources.limits.cpu"
	for _, tc := range []struct {
		name, data string
		path       string // path of the problem; "-" for no problem
	}{
		{"a number", cpu(`2`), "-"},
		{"a quantity", cpu(`"1500m"`), "-"},
		{"a small exponent", cpu(`"1e3"`), "-"},
		{"a large exponent", cpu(`"1e-200000000"`), at},
		{"a large exponent, positive", cpu(`"1E+200000000"`), at},
		{"a large exponent as a number", cpu(`1e-200000000`), at},
		{"a large exponent in escapes", cpu(`"\u0031\u0065\u002d200000000"`), at},
		{"a large exponent, its e in an escape", cpu(`"1\u0065-200000000"`), at},
		{"a large exponent after spaces", cpu(`" \t\u00a0 1e-200000000"`), at},
		{"a quantity between spaces", cpu(`" 1 "`), "-"},
		{"many digits", cpu(`"` + strings.Repeat("1", 100_000) + `"`), at},
		{"many digits as a number", cpu(strings.Repeat("1", 100_000)), at},
		{"many zeros after the point", cpu(`"0.` + strings.Repeat("0", 100_000) + `"`), at},
		{"the same in an env value", `{"template":{"spec":{"containers":[{"env":[{"name":"A","value":"1e-200000000"}]}]}}}`, "-"},
		{"the same in an annotation", `{"template":{"metadata":{"annotations":{"cpu":"` + strings.Repeat("1", 1000) + `"}}}}`, "-"},
		{"the same in a field that nobody knows", `{"template":{"spec":{"limits":{"cpu":"1e-200000000"}}}}`, "-"},
		{"the same in a claim", `{"claims":[{},{"spec":{"resources":{"requests":{"storage":"1e-200000000"}}}}]}`, "claims[1].spec.resources.requests.storage"},
		{"the same in a pointer", `{"template":{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"1e-200000000"}}]}}}`, "template.spec.volumes[0].emptyDir.sizeLimit"},
		{"a quantity that is none, beside a suspicious value", `{"template":{"spec":{"overhead":{"cpu":"x"},"hostname":"1e99999"}}}`, "template.spec.overhead.cpu"},
		{"a quantity that is none", cpu(`"oops"`), at},
		{"a type that is wrong", `{"template":{"spec":{"hostNetwork":"yes"}}}`, "template.spec.hostNetwork"},
		{"an annotation that YAML has read as a bool", `{"template":{"metadata":{"annotations":{"a":"b","x":true}}}}`, "template.metadata.annotations.x"},
		{"one with a domain", `{"template":{"metadata":{"annotations":{"example.com/x":true}}}}`, "template.metadata.annotations.example.com/x"},
		{"the value of a variable", `{"template":{"spec":{"containers":[{"name":"a"},{"env":[{"name":"A","value":"x"}, {"name": "B", "value": 1}]}]}}}`, "template.spec.containers[1].env[1].value"},
		{"a list where text is wanted", `{"claims":[{"metadata":{"name":[1]}}]}`, "claims[0].metadata.name"},
		{"an object where text is wanted", `{"claims":[{},{"metadata":{"name":{"a":1}}}]}`, "claims[1].metadata.name"},
		{"a port", `{"template":{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":99999999999}}}]}}}`, "template.spec.containers[0].livenessProbe.httpGet.port"},
		{"keys in another case", `{"Template":5,"template":{"SPEC":6}}`, "-"},
		{"a digest", `{"template":{"spec":{"containers":[{"image":"app@sha256:0123456789e12345678901234567890123456789012345678901234567890123"}]}}}`, "-"},
		{"many containers", `{"template":{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat("{},", 100_000), ",") + `]}}}`, "template.spec.containers[" + fmt.Sprint((16<<20)/int(containerSize())) + "]"},
		{"not so many", `{"template":{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat("{},", 10_000), ",") + `]}}}`, "-"},
		{"large, and odd in a field that reads itself", `{"template":{},"own":{"template":{"spec":{"hostNetwork":"yes"}}},"padding":"` + strings.Repeat("x", 20_000) + `"}`, "-"},
		{"slow in a field that reads itself", `{"template":{},"own":{"template":{"spec":{"overhead":{"cpu":"1e-200000000"}}}}}`, "own.template.spec.overhead.cpu"},
		{"no JSON", `{"template":`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s spec
			err := decode.Object([]byte(tc.data), &s)
			path := "-"
			if problem := (decode.Problem{}); errors.As(err, &problem) {
				path = problem.Path
			} else if err != nil {
				t.Fatalf("%v is no Problem", err)
			}
			if path != tc.path {
				t.Errorf("problem at %q, want %q: %.300v", path, tc.path, err)
			}
		})
	}
}

func TestFields(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		want       spec
		problems   []string // paths
		wantErr    string
	}{
		{"nothing wrong", `{"replicas":2,"template":{"metadata":{"name":"a"}}}`, spec{Replicas: 2, Template: named("a")}, nil, ""},
		{
			"a template", `{"replicas":2,"template":{"metadata":{"name":"a","annotations":{"x":true}}},"claims":[]}`,
			spec{Replicas: 2, Claims: []corev1.PersistentVolumeClaim{}},
			[]string{"spec.template.metadata.annotations.x"},
			"",
		},
		{"a template that is a number", `{"template":5,"replicas":2}`, spec{Replicas: 2}, []string{"spec.template"}, ""},
		{
			"claims", `{"replicas":2,"template":{"metadata":{"name":"a"}},"claims":[{},7]}`,
			spec{Replicas: 2, Template: named("a")},
			[]string{"spec.claims[1]"},
			"",
		},
		{"both", `{"replicas":2,"claims":7,"template":8}`, spec{Replicas: 2}, []string{"spec.claims", "spec.template"}, ""},
		{
			"a quantity that takes long", `{"replicas":2,"template":{"spec":{"overhead":{"cpu":"1e-200000000"}}}}`,
			spec{Replicas: 2},
			[]string{"spec.template.spec.overhead.cpu"},
			"",
		},
		{"everything", `{"replicas":"x","template":8}`, spec{}, []string{"spec.replicas", "spec.template"}, ""},
		{"a number too large", `{"replicas":3000000000,"template":{"metadata":{"name":"a"}}}`, spec{Template: named("a")}, []string{"spec.replicas"}, ""},
		{"beside what nobody knows", `{"future":"x","replicas":"x"}`, spec{}, []string{"spec.replicas"}, ""},
		{"no object", `[]`, spec{}, nil, "must be an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got spec
			problems, err := decode.Fields([]byte(tc.data), &got, "spec")
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want one with %q", err, tc.wantErr)
			}
			var paths []string
			for _, problem := range problems {
				paths = append(paths, problem.Path)
			}
			if diff := cmp.Diff(tc.problems, paths); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFieldsRefusesTargets: Fields returns an error for unsuitable targets, and does not panic.
func TestFieldsRefusesTargets(t *testing.T) {
	var number int
	for _, into := range []any{nil, spec{}, (*spec)(nil), &number} {
		if _, err := decode.Fields([]byte(`{}`), into, "spec"); err == nil || !strings.Contains(err.Error(), "must be a pointer to a struct") {
			t.Errorf("into %T: %v", into, err)
		}
	}
	for _, into := range []any{nil, spec{}, (*spec)(nil)} {
		if err := decode.Object([]byte(`{"replicas":1e-200000000}`), into); err == nil {
			t.Errorf("into %T: no error", into)
		}
	}
}

// TestFieldsInPlace: Fields replaces the former content of the struct, unless the JSON is no object.
func TestFieldsInPlace(t *testing.T) {
	type batch struct {
		Workers int32 `json:"workers"`
		Limit   int32 `json:"limit"`
	}
	got := batch{1, 2}
	if problems, err := decode.Fields([]byte(`{"workers":"many"}`), &got, "spec"); err != nil || len(problems) != 1 || got != (batch{}) {
		t.Errorf("%+v, %v, %v; want nothing of the former content, and a problem", got, problems, err)
	}
	got = batch{1, 2}
	if _, err := decode.Fields([]byte(`[]`), &got, "spec"); err == nil || got != (batch{1, 2}) {
		t.Errorf("%+v, %v; want an error, and the former content", got, err)
	}
}

func TestMarshal(t *testing.T) {
	type batch struct {
		Workers int32 `json:"workers"`
	}
	if raw, err := decode.Marshal(batch{3}, nil); err != nil || string(raw) != `{"workers":3}` {
		t.Errorf("%s, %v", raw, err)
	}
	problem := decode.Problem{Path: "spec.limit", Detail: "many is no number"}
	if raw, err := decode.Marshal(batch{3}, []decode.Problem{problem}); !errors.Is(err, problem) || raw != nil {
		t.Errorf("%s, %v; want the problem", raw, err)
	}
}

func TestDepth(t *testing.T) {
	for data, want := range map[string]int{
		``: 0, `5`: 0, `{}`: 1, `{"a":[{}],"b":[]}`: 3, `"[[["`: 0, `{"[\"[":"\\","b":[]}`: 2, `["\\\"[["]`: 1, `["`: 1, `["\`: 1,
		strings.Repeat("[", 20_000): 20_000,
	} {
		if got := decode.Depth([]byte(data)); got != want {
			t.Errorf("depth of %.40s is %d, want %d", data, got, want)
		}
	}
}

func TestElements(t *testing.T) {
	for data, want := range map[string]int{
		``: 0, `5`: 0, `{}`: 0, `[]`: 0, `[ ]`: 0, `[1]`: 1, `[1,2,3]`: 3, `[[]]`: 1, `[[],[]]`: 2, `[[1],[2,3]]`: 5, `{"a":[1],"b":[]}`: 1,
		`[{"a":1,"b":2}]`: 1, `["a,b","[,"]`: 2, `[ "a" , "b" ]`: 2, `]]]`: 0, `["`: 1, "[\n{},\n{}\n]": 2, `{"a":{"b":[{"c":[1,2]},{}]}}`: 4,
	} {
		if got := decode.Elements([]byte(data)); got != want {
			t.Errorf("%s has %d elements, want %d", data, got, want)
		}
	}
}

// FuzzObject: the decoded value equals the value decoded by encoding/json, and a value is refused as a quantity only
// if its field is a quantity.
func FuzzObject(f *testing.F) {
	for _, cpu := range []string{`"1"`, `1e3`, `"1e-20000"`, `"\u0031e-20000"`, `" 1e99999"`, `"1e+99999 "`, `{"a":"1e99999"}`, `["1e99999"]`} {
		f.Add([]byte(`{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":` + cpu + `}}}],"overhead":{"x":` + cpu + `}}}}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s spec
		if decode.Object(data, &s) != nil {
			return
		}
		for _, c := range s.Template.Spec.Containers {
			for _, q := range c.Resources.Limits {
				checkQuantity(t, q)
			}
		}
		for _, q := range s.Template.Spec.Overhead {
			checkQuantity(t, q)
		}
		var again spec
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := decode.Object(encoded, &again); err != nil {
			t.Errorf("encoded again: %v", err)
		}
	})
}

func checkQuantity(t *testing.T, q resource.Quantity) {
	t.Helper()
	if text := q.String(); len(text) > 1100 {
		t.Errorf("a quantity of %d characters got through", len(text))
	}
}

func named(name string) (out corev1.PodTemplateSpec) {
	out.Name = name
	return out
}

func containerSize() uintptr { return reflect.TypeFor[corev1.Container]().Size() }

func BenchmarkObject(b *testing.B) {
	data := []byte(`{"replicas":1,"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"app@sha256:0123456789e12345678901234567890123456789012345678901234567890123","resources":{"limits":{"cpu":"1"}}}]}}}`)
	b.ReportAllocs()
	for b.Loop() {
		var s spec
		if err := decode.Object(data, &s); err != nil {
			b.Fatal(err)
		}
	}
}
