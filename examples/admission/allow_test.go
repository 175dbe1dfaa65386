package admission_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
)

// post sends a review to an unserved path.
func post(t testing.TB, handler http.Handler, path string) *admissionv1.AdmissionResponse {
	t.Helper()
	body := encode(t, tree{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": request(t, admissionv1.Create, manifest(t, small("v1beta1")), nil),
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.URL.Path = path
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Response == nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return answer.Response
}

// rest returns the handler of unserved paths.
func rest(observe func(path string)) http.Handler {
	return handlersOf(admission.Options{UnknownPath: observe})[admission.RestPath]
}

func TestAllowWarns(t *testing.T) {
	long := "/" + strings.Repeat("a", 150)
	for _, tc := range []struct{ name, path, label, warned string }{
		{"a path of another manager", "/mutate-pod", "/mutate-pod", "at /mutate-pod:"},
		{"no path", "/", "/", "at /:"},
		{"a path that is no header", "/a\nb\"c", admission.OtherPaths, "at /a?b?c:"},
		{"a path that is no text", "/\xff\xfe", admission.OtherPaths, "at /??:"},
		{"a long path", long, admission.OtherPaths, "at " + long[:100] + ":"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var observed []string
			got := post(t, rest(func(path string) { observed = append(observed, path) }), tc.path)
			if !got.Allowed || len(got.Patch) > 0 || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], tc.warned) {
				t.Errorf("%+v, want it allowed with a warning that names %q", got, tc.warned)
			}
			if diff := cmp.Diff([]string{tc.label}, observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

// Nobody fills the memory with paths.
func TestAllowTellsFewPathsApart(t *testing.T) {
	observed := map[string]int{}
	handler := rest(func(path string) { observed[path]++ })
	want := map[string]int{admission.OtherPaths: 20}
	for round := range 2 {
		for i := range 60 {
			path := fmt.Sprintf("/%d", i)
			post(t, handler, path)
			if round == 0 && i < 50 {
				want[path] = 2
			}
		}
	}
	if diff := cmp.Diff(want, observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}
