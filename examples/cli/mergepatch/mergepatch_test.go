package mergepatch_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/cli/mergepatch"
)

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const cloneSet = `{"apiVersion":"apps.kruise.io/VERSION","kind":"CloneSet","metadata":{"name":"web","resourceVersion":"7"},` +
	`"spec":{"new":{"field":1},"template":{"spec":{"containers":[{"name":"app","image":"a:1","unknown":true},{"name":"log","image":"l:1"}]}}}}`

func TestTranslate(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		got, kind, err := mergepatch.Translate(scheme(t), []byte(strings.Replace(cloneSet, "VERSION", version, 1)),
			[]byte(`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"app"},{"name":"log"}],"containers":[{"name":"app","image":"a:2"}]}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		// A field that the Go type does not have stays in the object.
		want := `{"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{"containers":[{"image":"a:2","name":"app","unknown":true},{"image":"l:1","name":"log"}]}}}}`
		if diff := cmp.Diff(want, string(got)); diff != "" || kind != "application/merge-patch+json" {
			t.Errorf("%s: %s patch (-want +got):\n%s", version, kind, diff)
		}
	}
}

func TestTranslateLeavesUnknownKindsAlone(t *testing.T) {
	patch := []byte(`{"spec":{"paused":true}}`)
	got, kind, err := mergepatch.Translate(scheme(t), []byte(`{"apiVersion":"apps.kruise.io/v9","kind":"CloneSet"}`), patch)
	if err != nil || !bytes.Equal(got, patch) || kind != "application/strategic-merge-patch+json" {
		t.Errorf("%s %s %v", kind, got, err)
	}
}

// server simulates an API server with a single object. server answers the first patches with conflicts.
type server struct {
	conflicts int
	requests  []string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(raw)
	}
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Content-Type")+" "+body))
	code := http.StatusOK
	if r.Method == http.MethodPatch && s.conflicts > 0 {
		s.conflicts--
		code = http.StatusConflict
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(strings.Replace(cloneSet, "VERSION", "v1beta1", 1)))}, nil
}

func TestTransport(t *testing.T) {
	const path = "/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets/web"
	const patched = `PATCH ` + path + `?dryRun=All application/merge-patch+json {"metadata":{"resourceVersion":"7"},"spec":{"replicas":3}}`
	tests := []struct {
		name, path, kind string
		conflicts        int
		want             []string
	}{
		{"translated", path, "application/strategic-merge-patch+json", 0, []string{"GET " + path, patched}},
		{"again after a conflict", path, "application/strategic-merge-patch+json", 1, []string{"GET " + path, patched, "GET " + path, patched}},
		{"another type of patch", path, "application/json-patch+json", 0, []string{`PATCH ` + path + `?dryRun=All application/json-patch+json {"spec":{"replicas":3}}`}},
		{
			"a kind of Kubernetes", "/apis/apps/v1/x", "application/strategic-merge-patch+json", 0,
			[]string{`PATCH /apis/apps/v1/x?dryRun=All application/strategic-merge-patch+json {"spec":{"replicas":3}}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{conflicts: tt.conflicts}
			transport := &mergepatch.Transport{Below: s, Scheme: scheme(t), Groups: []string{"apps.kruise.io"}}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://x"+tt.path+"?dryRun=All", strings.NewReader(`{"spec":{"replicas":3}}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", tt.kind)
			response, err := transport.RoundTrip(request)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("%v %v", response, err)
			}
			if err := response.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, s.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
