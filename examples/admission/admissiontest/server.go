package admissiontest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
)

// Server answers reviews with the handlers made by [admission.Handlers], by path.
type Server map[string]http.Handler

// Path returns the path for objects of a kind. The verb is "mutate" or "validate".
func Path(verb string, object Tree) string {
	kind, _ := object["kind"].(string)
	apiVersion, _ := object["apiVersion"].(string)
	group, _, _ := strings.Cut(apiVersion, "/")
	return "/" + verb + "-" + strings.ReplaceAll(group, ".", "-") + "-" + strings.ToLower(kind)
}

// Request returns the API server's request for a write in the namespace default. object is nil for a deletion, and old
// is nil for a creation.
func Request(t testing.TB, operation admissionv1.Operation, object, old Tree) *admissionv1.AdmissionRequest {
	t.Helper()
	about := present(object, old)
	apiVersion, _ := about["apiVersion"].(string)
	kind, _ := about["kind"].(string)
	metadata, _ := about["metadata"].(Tree)
	name, _ := metadata["name"].(string)
	group, version, _ := strings.Cut(apiVersion, "/")
	req := &admissionv1.AdmissionRequest{
		UID: "the-uid", Kind: metav1.GroupVersionKind{Group: group, Version: version, Kind: kind},
		Resource:  metav1.GroupVersionResource{Group: group, Version: version, Resource: strings.ToLower(kind) + "s"},
		Operation: operation, Name: name, Namespace: "default",
	}
	if object != nil {
		req.Object.Raw = Encode(t, object)
	}
	if old != nil {
		req.OldObject.Raw = Encode(t, old)
	}
	return req
}

// present returns the object of a request, or the old object of a deletion.
func present(object, old Tree) Tree {
	if object == nil {
		return old
	}
	return object
}

// Ask posts a body to a path, and returns the code and body of the response. changes modify the HTTP request before it
// is sent.
func (s Server) Ask(t testing.TB, path string, body []byte, changes ...func(*http.Request)) (code int, answer []byte) {
	t.Helper()
	handler, served := s[path]
	if !served {
		t.Fatalf("nothing is served at %s", path)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.URL.Path = path
	r.Header.Set("Content-Type", "application/json")
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// Review sends a review to a path, and checks that the response belongs to the request.
func (s Server) Review(t testing.TB, path string, req *admissionv1.AdmissionRequest, changes ...func(*http.Request)) *admissionv1.AdmissionResponse {
	t.Helper()
	sent := admissionv1.AdmissionReview{Request: req}
	sent.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	code, body := s.Ask(t, path, Encode(t, sent), changes...)
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &got); err != nil || code != http.StatusOK || got.Response == nil {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	if got.Response.UID != req.UID || got.APIVersion != sent.APIVersion || got.Kind != sent.Kind || got.Request != nil {
		t.Errorf("not an answer to this request: %s", body)
	}
	return got.Response
}

// Mutate asks for the defaults of a created object, or of an updated object if old is not nil.
func (s Server) Mutate(t testing.TB, object, old Tree) *admissionv1.AdmissionResponse {
	t.Helper()
	return s.write(t, "mutate", object, old)
}

// Validate asks for the validation of a created object, or of an updated object if old is not nil. If object is nil,
// old is deleted.
func (s Server) Validate(t testing.TB, object, old Tree) *admissionv1.AdmissionResponse {
	t.Helper()
	return s.write(t, "validate", object, old)
}

func (s Server) write(t testing.TB, verb string, object, old Tree) *admissionv1.AdmissionResponse {
	t.Helper()
	operation := admissionv1.Update
	switch {
	case object == nil:
		operation = admissionv1.Delete
	case old == nil:
		operation = admissionv1.Create
	}
	return s.Review(t, Path(verb, present(object, old)), Request(t, operation, object, old))
}

// Defaulted returns the object with its defaults. Defaulted also checks that a second review changes nothing.
func (s Server) Defaulted(t testing.TB, object, old Tree) Tree {
	t.Helper()
	result, _ := Patch(t, object, s.Mutate(t, object, old))
	if _, again := Patch(t, result, s.Mutate(t, result, old)); len(again) > 0 {
		t.Errorf("defaulted again: %v", again)
	}
	return result
}

// Convert asks for objects in another apiVersion with a ConversionReview of the given version, checks that the response
// belongs to the request, and returns the response.
func (s Server) Convert(t testing.TB, reviewVersion, apiVersion string, objects ...any) Tree {
	t.Helper()
	if objects == nil {
		objects = []any{}
	}
	review := Tree{
		"apiVersion": "apiextensions.k8s.io/" + reviewVersion, "kind": "ConversionReview",
		"request": Tree{"uid": "the-uid", "desiredAPIVersion": apiVersion, "objects": objects},
	}
	code, body := s.Ask(t, admission.ConvertPath, Encode(t, review))
	var got Tree
	if err := json.Unmarshal(body, &got); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	if got["kind"] != review["kind"] || got["apiVersion"] != review["apiVersion"] || got["request"] != nil {
		t.Errorf("not an answer to this request: %s", body)
	}
	response, _ := got["response"].(Tree)
	if response["uid"] != "the-uid" {
		t.Errorf("uid %v", response["uid"])
	}
	return response
}
