package controllertest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/controllertest"
)

// line returns the audit log's line for a request.
func line(agent, verb, resource, namespace string, code int) string {
	resource, sub, _ := strings.Cut(resource, "/")
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","verb":%q,"user":{"username":"admin"},`+
		`"userAgent":%q,"objectRef":{"resource":%q,"subresource":%q,"namespace":%q,"name":"x"},"responseStatus":{"code":%d}}`+"\n",
		verb, agent, resource, sub, namespace, code)
}

const (
	manager   = "kruise-manager/1.0 (linux/amd64)"
	namespace = "team-a"
)

// record contains lines that the test adds to the log, at a time after the start of the window.
type record struct {
	at    time.Duration
	lines []string
}

// failures stands for a test, and collects the test's error messages.
type failures struct {
	testing.TB

	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// TestFewWrites runs FewWrites with a window of ten seconds, and adds lines to the audit log meanwhile.
func TestFewWrites(t *testing.T) {
	refused := line(manager, "create", "pods", namespace, 403)
	for _, tt := range []struct {
		name    string
		records []record
		want    []string
		took    time.Duration
	}{
		{"nothing", nil, nil, 10 * time.Second},
		{"as many as may be", []record{{time.Second, []string{refused}}, {9 * time.Second, []string{refused}}}, nil, 10 * time.Second},
		{
			"too many",
			[]record{{time.Second, []string{refused}}, {2 * time.Second, []string{refused, line(manager, "patch", "pods/status", namespace, 200)}}},
			[]string{"4 writes within 10s, at most 3 are fine: map[create pods (403):3 patch pods/status:1]"},
			2 * time.Second,
		},
		{"after the window", []record{{11 * time.Second, slices.Repeat([]string{refused}, 9)}}, nil, 10 * time.Second},
		{
			"what does not count",
			[]record{{time.Second, slices.Concat(
				slices.Repeat([]string{line(manager, "get", "pods", namespace, 200)}, 9),
				slices.Repeat([]string{line(manager, "watch", "pods", namespace, 200)}, 9),
				slices.Repeat([]string{line(manager, "create", "events", namespace, 201)}, 9),
				slices.Repeat([]string{line(manager, "update", "leases", namespace, 200)}, 9),
				slices.Repeat([]string{line(manager, "delete", "pods", "team-b", 200)}, 9),
				slices.Repeat([]string{line("kube-scheduler/1.36", "create", "pods/binding", namespace, 201)}, 9),
			)}},
			nil, 10 * time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "audit.log")
				if err := os.WriteFile(path, []byte(strings.Repeat(refused, 20)+refused[:40]), 0o600); err != nil { // logged before the window
					t.Fatal(err)
				}
				rest := refused[40:] // the rest of a line that was written only partly when the window began
				for i, r := range tt.records {
					if i == 0 {
						r.lines = append([]string{rest}, r.lines...)
					}
					time.AfterFunc(r.at-time.Millisecond, func() { add(t, path, r.lines) })
				}
				began, got := time.Now(), &failures{TB: t}
				controllertest.FewWrites(got, path, "kruise-manager/", namespace, 10*time.Second, 3)
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				if diff := cmp.Diff(tt.want, got.texts); diff != "" {
					t.Errorf("failures (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func add(t *testing.T, path string, lines []string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(strings.Join(lines, ""))
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
