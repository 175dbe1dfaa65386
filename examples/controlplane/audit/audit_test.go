package audit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/controlplane/audit"
)

func TestRead(t *testing.T) {
	const (
		patch = `{"verb":"patch","userAgent":"me/1 a","objectRef":{"resource":"pods","subresource":"status","namespace":"n","name":"p"},"responseStatus":{"code":409}}` + "\n"
		other = `{"verb":"get","userAgent":"you/1","user":{"username":"system:you"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}` + "\n"
		get   = `{"verb":"get","userAgent":"me/1 b","responseStatus":{"code":200}}` + "\n"
	)
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(patch+other+get[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	first, offset, err := audit.Read(path, 0, "me/")
	if err != nil {
		t.Fatal(err)
	}
	want := []audit.Request{{Verb: "patch", Resource: "pods/status", Namespace: "n", Name: "p", UserAgent: "me/1 a", Code: 409}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first part (-want +got):\n%s", diff)
	}
	if got := first[0].String(); got != "patch pods/status (409)" || !first[0].IsWrite() {
		t.Errorf("rendered as %q, a write: %v", got, first[0].IsWrite())
	}
	if err := os.WriteFile(path, []byte(patch+other+get), 0o600); err != nil {
		t.Fatal(err)
	}
	second, offset, err := audit.Read(path, offset, "me/")
	if err != nil || offset != int64(len(patch+other+get)) {
		t.Fatalf("offset %d, error %v", offset, err)
	}
	if diff := cmp.Diff([]audit.Request{{Verb: "get", UserAgent: "me/1 b", Code: 200}}, second); diff != "" {
		t.Errorf("the line that was being written (-want +got):\n%s", diff)
	}
	byUser, _, err := audit.Select(path, 0, func(r audit.Request) bool { return r.User == "system:you" })
	if err != nil {
		t.Fatal(err)
	}
	want = []audit.Request{{Verb: "get", Resource: "pods", User: "system:you", UserAgent: "you/1", Code: 200}}
	if diff := cmp.Diff(want, byUser); diff != "" {
		t.Errorf("requests of one user (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("junk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := audit.Read(path, 0, ""); err == nil {
		t.Error("a line that is no JSON is read without an error")
	}
}
