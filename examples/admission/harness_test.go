package admission_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

const (
	mutatePath   = "/mutate-apps-kruise-io-cloneset"
	validatePath = "/validate-apps-kruise-io-cloneset"
)

// pathOf is the path for mutating or validating objects of a kind.
func pathOf(verb string, object tree) string {
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	group, _, _ := strings.Cut(version, "/")
	return "/" + verb + "-" + strings.ReplaceAll(group, ".", "-") + "-" + strings.ToLower(kind)
}

// tree is an object as decoded JSON.
type tree = map[string]any

// handlersOf returns all handlers, for all kinds.
func handlersOf(options admission.Options) map[string]http.Handler {
	return admission.Handlers(options, append(kind.Endpoints(kinds.All(), options), admission.Protection(options))...)
}

// endpointOf returns the endpoint of a kind.
func endpointOf(name string, options admission.Options) admission.Endpoint {
	rows := kinds.All()
	return rows[slices.IndexFunc(rows, func(r kind.Row) bool { return r.Kind.Kind == name })].Admission(options)
}

// manifest reads an object from YAML.
func manifest(t testing.TB, text string) tree {
	t.Helper()
	var object tree
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func testdata(t testing.TB, name string) tree {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return manifest(t, string(raw))
}

// small is the smallest valid CloneSet in a version, with more lines of spec.
func small(version string, more ...string) string {
	return `apiVersion: apps.kruise.io/` + version + `
kind: CloneSet
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
` + strings.Join(more, "\n") + `
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: "example.test/app:v1"}
`
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// request is a request about the objects, either of which may be nil.
func request(t testing.TB, operation admissionv1.Operation, object, old tree) *admissionv1.AdmissionRequest {
	t.Helper()
	about := object
	if about == nil {
		about = old
	}
	apiVersion, _ := about["apiVersion"].(string)
	kind, _ := about["kind"].(string)
	metadata, _ := about["metadata"].(tree)
	name, _ := metadata["name"].(string)
	group, version, _ := strings.Cut(apiVersion, "/")
	req := &admissionv1.AdmissionRequest{
		UID: "the-uid", Kind: metav1.GroupVersionKind{Group: group, Version: version, Kind: kind},
		Resource:  metav1.GroupVersionResource{Group: group, Version: version, Resource: strings.ToLower(kind) + "s"},
		Operation: operation, Name: name, Namespace: "default",
	}
	if object != nil {
		req.Object.Raw = encode(t, object)
	}
	if old != nil {
		req.OldObject.Raw = encode(t, old)
	}
	return req
}

// ask posts a body and returns the answer's code and body.
func ask(t testing.TB, handler http.Handler, body []byte) (int, []byte) {
	t.Helper()
	return askFrom(t, handler, "192.0.2.1:40000", bytes.NewReader(body), int64(len(body)))
}

// askFrom is ask from an address, with a body of declared length.
func askFrom(t testing.TB, handler http.Handler, address string, body io.Reader, length int64) (int, []byte) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr, r.ContentLength = address, length
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// review asks the handler of a path and checks that the answer belongs to the request.
func review(t testing.TB, options admission.Options, path string, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	sent := admissionv1.AdmissionReview{Request: req}
	sent.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	code, body := ask(t, handlersOf(options)[path], encode(t, sent))
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &got); err != nil || code != http.StatusOK || got.Response == nil {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	if got.Response.UID != req.UID || got.APIVersion != sent.APIVersion || got.Kind != sent.Kind || got.Request != nil {
		t.Errorf("not an answer to this request: %s", body)
	}
	return got.Response
}

// step is an operation of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func steps(t testing.TB, response *admissionv1.AdmissionResponse) []step {
	t.Helper()
	if !response.Allowed {
		t.Fatalf("refused: %+v", response.Result)
	}
	if (response.Patch == nil) != (response.PatchType == nil) {
		t.Fatalf("patch %q of type %v", response.Patch, response.PatchType)
	}
	var patch []step
	if response.Patch != nil {
		if err := json.Unmarshal(response.Patch, &patch); err != nil {
			t.Fatal(err)
		}
	}
	return patch
}

// apply applies a patch strictly: the parents of a path must exist, and so must replaced or removed values.
func apply(t testing.TB, object tree, patch []step) tree {
	t.Helper()
	var result any
	if err := json.Unmarshal(encode(t, object), &result); err != nil {
		t.Fatal(err)
	}
	for _, s := range patch {
		words := strings.Split(s.Path, "/")[1:]
		for i := range words {
			words[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(words[i])
		}
		if result = applyStep(t, result, words, s); t.Failed() {
			t.Fatalf("%+v does not apply to %s", s, encode(t, object))
		}
	}
	return result.(tree)
}

func applyStep(t testing.TB, at any, words []string, s step) any {
	word, last := words[0], len(words) == 1
	switch at := at.(type) {
	case tree:
		value, there := at[word]
		switch {
		case !there && (!last || s.Op != "add"):
			t.Fail()
		case !last:
			at[word] = applyStep(t, value, words[1:], s)
		case s.Op == "remove":
			delete(at, word)
		default:
			at[word] = s.Value
		}
		return at
	case []any:
		if word == "-" && last && s.Op == "add" {
			return append(at, s.Value)
		}
		i, err := strconv.Atoi(word)
		switch {
		case err != nil || i >= len(at) || (last && s.Op != "replace"):
			t.Fail()
		case last:
			at[i] = s.Value
		default:
			at[i] = applyStep(t, at[i], words[1:], s)
		}
		return at
	}
	t.Fail()
	return at
}

// mutated returns the object with the defaults.
func mutated(t testing.TB, options admission.Options, object, old tree) tree {
	t.Helper()
	operation := admissionv1.Create
	if old != nil {
		operation = admissionv1.Update
	}
	return apply(t, object, steps(t, review(t, options, pathOf("mutate", object), request(t, operation, object, old))))
}

// edit returns the object with a changed value; nil deletes. The last step may be a missing key.
func edit(t testing.TB, object tree, path string, value any) tree {
	t.Helper()
	s := step{Op: "add", Path: path, Value: value}
	if value == nil {
		s.Op = "remove"
	}
	return apply(t, object, []step{s})
}

// leaves lists every value of a tree by path. Empty maps and lists are leaves.
func leaves(path string, value any, into map[string]any) map[string]any {
	switch value := value.(type) {
	case tree:
		for key := range maps.Keys(value) {
			leaves(path+"/"+key, value[key], into)
		}
		if len(value) > 0 {
			return into
		}
	case []any:
		for i := range value {
			leaves(path+"/"+strconv.Itoa(i), value[i], into)
		}
		if len(value) > 0 {
			return into
		}
	}
	into[path] = value
	return into
}
