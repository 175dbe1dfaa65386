package admission

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// thing is the Go type of a kind with a single version.
type thing struct {
	metav1.TypeMeta `json:",inline"`

	Spec thingSpec `json:"spec"`
}

type thingSpec struct {
	Items []thingItem `json:"items,omitempty"`
}

type thingItem struct {
	Name string `json:"name"`
	Mode string `json:"mode,omitempty"`
}

func things(f func(obj, stored *thing)) *Rules[thing, struct{}] {
	return &Rules[thing, struct{}]{
		GroupKind: schema.GroupKind{Group: "a.test", Kind: "Thing"}, Resource: "things", Name: "thing", HubVersion: "v1",
		Default: f,
		ValidateCreate: func(_ context.Context, obj *thing) (field.ErrorList, error) {
			f(obj, nil)
			return nil, nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *thing) (field.ErrorList, error) {
			f(obj, stored)
			return nil, nil
		},
	}
}

func writing(object string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Name: "x", Object: runtime.RawExtension{Raw: []byte(object)},
		Kind: metav1.GroupVersionKind{Group: "a.test", Version: "v1", Kind: "Thing"},
	}}
}

func TestKindOfOneVersion(t *testing.T) {
	kind := things(func(obj, _ *thing) {
		obj.Spec.Items[0].Mode = "fast"
		obj.Spec.Items = append(obj.Spec.Items, thingItem{Name: "added"})
	})
	if paths := []string{kind.MutatePath(), kind.ValidatePath()}; !cmp.Equal(paths, []string{"/mutate-a-test-thing", "/validate-a-test-thing"}) {
		t.Errorf("paths %v", paths)
	}
	response := kind.Mutate(t.Context(), writing(`{"spec":{"items":[{"name":"a","future":1},{"name":"b"}]}}`))
	const want = `[{"op":"add","path":"/spec/items/0/mode","value":"fast"},{"op":"add","path":"/spec/items/-","value":{"name":"added"}}]`
	if diff := cmp.Diff(want, string(response.Patch)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e := kind.endpoint(); e.convert != nil {
		t.Error("a kind of one version is converted")
	}
	// Without ValidateDelete, every deletion is admitted, and the object is not decoded.
	req := writing("")
	req.Operation, req.OldObject.Raw = admissionv1.Delete, []byte("junk")
	if response := kind.Validate(t.Context(), req); !response.Allowed {
		t.Errorf("delete: %+v", response.Result)
	}
	// An empty version in the request does not match the missing older version.
	req = writing(`{}`)
	req.Kind.Version = ""
	if response := kind.Validate(t.Context(), req); response.Allowed || response.Result.Code != http.StatusBadRequest {
		t.Errorf("no version: %+v", response.Result)
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	kind := things(func(*thing, *thing) { panic("boom") })
	for path, handler := range kind.endpoint().handlers {
		response := (&admission.Webhook{Handler: handler}).Handle(t.Context(), writing(`{}`))
		if response.Allowed || response.Result.Code != http.StatusInternalServerError || response.UID != "1" ||
			!strings.Contains(response.Result.Message, "boom") {
			t.Errorf("%s: %+v", path, response)
		}
	}
	c := &converter{kinds: map[schema.GroupKind]convertFunc{kind.GroupKind: func([]byte, string) ([]byte, error) { panic("boom") }}}
	body := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"a.test/v2",
		"objects":[{"apiVersion":"a.test/v1","kind":"Thing","metadata":{"name":"x"}}]}}`
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(body)))
	var got review
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Response == nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	const want = `object 1 of 1: converting Thing /x from "a.test/v1" to "a.test/v2": panic: boom`
	if diff := cmp.Diff(metav1.Status{Status: metav1.StatusFailure, Message: want}, got.Response.Result); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPatch(t *testing.T) {
	tests := []struct {
		name                      string
		sent, before, after, want string
	}{
		{name: "no change", sent: `{"a":1}`, before: `{"a":1,"zero":0}`, after: `{"a":1,"zero":0}`, want: `null`},
		{
			name: "what was sent in another spelling is no change", sent: `{"cpu":"1000m"}`, before: `{"cpu":"1"}`, after: `{"cpu":"1","b":2}`,
			want: `[{"op":"add","path":"/b","value":2}]`,
		},
		{
			name: "parents that were not sent come along", sent: `{}`, before: `{"a":{"b":{}}}`, after: `{"a":{"b":{"c":1}}}`,
			want: `[{"op":"add","path":"/a","value":{"b":{"c":1}}}]`,
		},
		{name: "null is replaced", sent: `{"a":null}`, before: `{}`, after: `{"a":{"b":1}}`, want: `[{"op":"add","path":"/a","value":{"b":1}}]`},
		{name: "a zero value is replaced", sent: `{"a":""}`, before: `{}`, after: `{"a":"x"}`, want: `[{"op":"add","path":"/a","value":"x"}]`},
		{name: "keys are escaped", sent: `{"a/b~":{}}`, before: `{"a/b~":{}}`, after: `{"a/b~":{"~/":1}}`, want: `[{"op":"add","path":"/a~1b~0/~0~1","value":1}]`},
		{name: "nothing of spec is removed", sent: `{"spec":{"a":1}}`, before: `{"spec":{"a":1}}`, after: `{"spec":{}}`, want: `null`},
		{
			name: "annotations are", sent: `{"metadata":{"annotations":{"a":"1","b":"2"}}}`, before: `{"metadata":{"annotations":{"a":"1","b":"2"}}}`,
			after: `{"metadata":{"annotations":{"b":"2"}}}`, want: `[{"op":"remove","path":"/metadata/annotations/a"}]`,
		},
		{
			name: "the last one with its parent", sent: `{"metadata":{"annotations":{"a":"1"}}}`, before: `{"metadata":{"annotations":{"a":"1"}}}`,
			after: `{"metadata":{}}`, want: `[{"op":"remove","path":"/metadata/annotations"}]`,
		},
		{name: "elements of plain lists", sent: `{"a":[1,2]}`, before: `{"a":[1,2]}`, after: `{"a":[1,3,4]}`, want: `[{"op":"replace","path":"/a/1","value":3},{"op":"add","path":"/a/-","value":4}]`},
		{name: "an element sent as null", sent: `{"a":[null]}`, before: `{"a":[{"b":""}]}`, after: `{"a":[{"b":"x"}]}`, want: `[{"op":"replace","path":"/a/0","value":{"b":"x"}}]`},
		{name: "a list that got shorter is replaced", sent: `{"a":[1,2]}`, before: `{"a":[1,2]}`, after: `{"a":[2]}`, want: `[{"op":"add","path":"/a","value":[2]}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var trees [3]map[string]any
			for i, text := range []string{tt.sent, tt.before, tt.after} {
				if err := json.Unmarshal([]byte(text), &trees[i]); err != nil {
					t.Fatal(err)
				}
			}
			var p patch
			p.object("", trees[0], trees[1], trees[2])
			got, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
