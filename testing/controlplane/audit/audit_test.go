package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

func TestRead(t *testing.T) {
	const (
		patch = `{"verb":"patch","userAgent":"me/1 a","objectRef":{"resource":"pods","subresource":"status","namespace":"n","name":"p"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-11-26T10:00:00.000001Z"}` + "\n"
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
	want := []audit.Request{{Verb: "patch", Resource: "pods/status", Namespace: "n", Name: "p", UserAgent: "me/1 a", Code: 409, Received: time.Date(2026, 11, 26, 10, 0, 0, 1000, time.UTC)}}
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

// TestEnd: End returns the offset after the last complete line, however long the incomplete last line is.
func TestEnd(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, tt := range []struct {
		name, log string
		want      int
	}{
		{"empty", "", 0},
		{"no whole line", "abc", 0},
		{"whole lines", "abc\ndef\n", 8},
		{"a line that is being written", "abc\ndef", 4},
		{"a long line that is being written", "abc\n" + long, 4},
		{"a long line, and one that is being written", long + "\nabc", len(long) + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := audit.End(path); err != nil || got != int64(tt.want) {
				t.Errorf("offset %d, want %d (error %v)", got, tt.want, err)
			}
		})
	}
	if _, err := audit.End(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("no error without a log")
	}
}

func TestDryRun(t *testing.T) {
	const uri = "/api/v1/namespaces/n/pods/p/resize?fieldManager=me"
	line := func(uri string) string {
		return `{"verb":"patch","requestURI":"` + uri + `","objectRef":{"resource":"pods","subresource":"resize"},"responseStatus":{"code":422}}` + "\n"
	}
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(line(uri)+line(uri+"&dryRun=All")), 0o600); err != nil {
		t.Fatal(err)
	}
	requests, _, err := audit.Read(path, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var writes []bool
	for _, r := range requests {
		got, writes = append(got, r.String()), append(writes, r.IsWrite())
	}
	if diff := cmp.Diff([]string{"patch pods/resize (422)", "patch pods/resize (dry run) (422)"}, got); diff != "" {
		t.Errorf("rendered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bool{true, false}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
