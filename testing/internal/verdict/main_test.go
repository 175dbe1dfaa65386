package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOfRealRuns runs go test for packages with all kinds of failures.
func TestOfRealRuns(t *testing.T) {
	const head = "package x\n\nimport (\n\t\"testing\"\n)\n\n"
	for _, tc := range []struct {
		name, source string
		want         []failure
		shown        []string
		hidden       string
		all          bool
	}{
		{"all passes", "func TestA(t *testing.T) { t.Log(\"quiet\") }", nil, []string{"ok  \texample.com/x"}, "quiet", false},
		{"all is shown", "func TestA(t *testing.T) { t.Log(\"quiet\") }", nil, []string{"ok  \texample.com/x", "quiet", "--- PASS"}, "\x00", true},
		{
			"one of two", "func TestA(t *testing.T) { t.Log(\"quiet\") }\nfunc TestB(t *testing.T) { t.Error(\"bad\"); t.Error(\"worse\") }",
			[]failure{{"example.com/x", "TestB", "x_test.go:8: bad"}},
			[]string{"worse", "FAIL\texample.com/x"},
			"quiet", false,
		},
		{
			"a part of a test", "func TestA(t *testing.T) { t.Run(\"part\", func(t *testing.T) { t.Error(\"bad\") }) }",
			[]failure{{"example.com/x", "TestA/part", "x_test.go:7: bad"}},
			[]string{"--- FAIL: TestA/part"},
			"\x00", false,
		},
		{
			"a panic", "func TestA(t *testing.T) { panic(\"lost\") }",
			[]failure{{"example.com/x", "TestA", "panic: lost [recovered, repanicked]"}},
			[]string{"goroutine"},
			"\x00", false,
		},
		{
			"it does not compile", "func TestA(t *testing.T) { undefined() }",
			[]failure{{"example.com/x [example.com/x.test]", "", "./x_test.go:7:28: undefined: undefined"}},
			[]string{"undefined: undefined"},
			"\x00", false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module example.com/x\n\ngo 1.26\n", "x_test.go": head + tc.source + "\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			test := exec.CommandContext(t.Context(), "go", "test", "-json", "./...")
			test.Dir, test.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
			stream, _ := test.Output()
			var shown bytes.Buffer
			got, err := read(bytes.NewReader(stream), &shown, tc.all)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(failure{})); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, stream)
			}
			for _, text := range tc.shown {
				if !strings.Contains(shown.String(), text) {
					t.Errorf("%q is not shown:\n%s", text, shown.String())
				}
			}
			if strings.Contains(shown.String(), tc.hidden) {
				t.Errorf("%q is shown:\n%s", tc.hidden, shown.String())
			}
		})
	}
}

// TestNothingWasRun: an output without any test is not a success.
func TestNothingWasRun(t *testing.T) {
	if err := run(strings.NewReader("go: no such directory\n"), &bytes.Buffer{}, "", false); err == nil {
		t.Error("no error")
	}
}

// TestFailuresAreAdded: if several runs write to the same file, the file has the failures of all runs.
func TestFailuresAreAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "failures.txt")
	for _, stream := range []string{
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: bad\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"p"}`,
		`{"Action":"output","Package":"q","Output":"panic: test timed out after 1s\n"}` + "\n" + `{"Action":"fail","Package":"q"}`,
	} {
		if err := run(strings.NewReader(stream), &bytes.Buffer{}, path, false); err == nil {
			t.Error("no error")
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("p\tTestA\ta_test.go:1: bad\nq\t\tpanic: test timed out after 1s\n", string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
