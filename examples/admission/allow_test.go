package admission_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// post sends a review of an object to a path that may have no handler of its own.
func post(t testing.TB, handlers admissiontest.Server, path string, about *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	return handlers.Review(t, admission.RestPath, about, func(r *http.Request) { r.URL.Path = path })
}

// widget returns a request about an object of a kind that is unknown to this project.
func widget(t testing.TB) *admissionv1.AdmissionRequest {
	t.Helper()
	return admissiontest.Request(t, admissionv1.Create, admissiontest.Manifest(t, "apiVersion: example.test/v1\nkind: Widget\nmetadata: {name: a}"), nil)
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
			handlers := handlersOf(admission.Options{UnknownPath: func(path string) { observed = append(observed, path) }})
			got := post(t, handlers, tc.path, widget(t))
			if !got.Allowed || len(got.Patch) > 0 || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], tc.warned) {
				t.Errorf("%+v, want it allowed with a warning that names %q", got, tc.warned)
			}
			if diff := cmp.Diff([]string{tc.label}, observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestOfOwnKinds: a running manager of OpenKruise 1.9.0 writes its own paths into the webhook configurations. The
// handlers check objects of the project's kinds at any path.
func TestRestOfOwnKinds(t *testing.T) {
	bad := small(t, "v1alpha1", "  updateStrategy: {type: Nonsense}")
	bad = admissiontest.Edit(t, bad, "/metadata/labels", tree{apps.LabelDeleteProtection: apps.DeleteProtectionAlways})
	for _, tc := range []struct {
		name, path string
		operation  admissionv1.Operation
		object     tree
		allowed    bool
		patched    bool
	}{
		{"MG-61 an invalid object", "/validate-apps-kruise-io-v1alpha1-cloneset", admissionv1.Create, bad, false, false},
		{"a valid object", "/validate-apps-kruise-io-v1alpha1-cloneset", admissionv1.Create, small(t, "v1alpha1"), true, false},
		{"defaults", "/mutate-apps-kruise-io-v1alpha1-cloneset", admissionv1.Create, small(t, "v1alpha1"), true, true},
		{"deletion of a protected object", "/validate-apps-kruise-io-v1alpha1-cloneset", admissionv1.Delete, bad, false, false},
		{"a path without a verb", "/cloneset", admissionv1.Create, small(t, "v1beta1"), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object, old := tc.object, tree(nil)
			if tc.operation == admissionv1.Delete {
				object, old = nil, object
			}
			gates := map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}
			got := post(t, handlersOf(admission.Options{Gates: gates}), tc.path, admissiontest.Request(t, tc.operation, object, old))
			if got.Allowed != tc.allowed || len(got.Patch) > 0 != tc.patched || len(got.Warnings) > 0 {
				t.Errorf("allowed %t, patch of %d bytes, warnings %q: %v", got.Allowed, len(got.Patch), got.Warnings, got.Result)
			}
		})
	}
}

// TestAllowTellsFewPathsApart: a client that sends reviews to many different paths does not fill the memory.
func TestAllowTellsFewPathsApart(t *testing.T) {
	observed := map[string]int{}
	handlers := handlersOf(admission.Options{UnknownPath: func(path string) { observed[path]++ }})
	want := map[string]int{admission.OtherPaths: 20}
	for round := range 2 {
		for i := range 60 {
			path := fmt.Sprintf("/%d", i)
			post(t, handlers, path, widget(t))
			if round == 0 && i < 50 {
				want[path] = 2
			}
		}
	}
	if diff := cmp.Diff(want, observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}
