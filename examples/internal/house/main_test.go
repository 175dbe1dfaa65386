package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPartOf(t *testing.T) {
	for file, want := range map[string]string{
		"examples/kinds/cloneset/row.go":                     "row",
		"examples/kinds/cloneset/admission.go":               "admission",
		"examples/kinds/podunavailablebudget/podvalidate.go": "admission",
		"examples/kinds/cloneset/resolve.go":                 "resolve",
		"examples/kinds/statefulset/validate_claims.go":      "admission",
		"examples/kinds/cloneset/decide.go":                  "decide",
		"examples/kinds/advancedcronjob/schedule/slots.go":   "decide",
		"examples/kinds/cloneset/controller.go":              "act",
		"examples/kinds/cloneset/decide_test.go":             "tests",
		"examples/apis/apps/v1beta1/cloneset_types.go":       "types",
		"examples/apis/apps/daemonset_keys.go":               "types",
		"examples/apis/apps/cloneset/default.go":             "defaults",
		"examples/apis/apps/conversion/daemonset_test.go":    "tests",
	} {
		if got := partOf(file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
}

func TestRun(t *testing.T) {
	root := t.TempDir()
	for file, content := range map[string]string{
		"examples/kinds/cloneset/row.go":               "// Package cloneset keeps Pods.\npackage cloneset\n",
		"examples/kinds/cloneset/decide.go":            "package cloneset\n\n// It says what it is.\nconst a = 1\n",
		"examples/apis/apps/v1beta1/cloneset_types.go": "package v1beta1\n",
		"examples/kinds/cloneset/row_test.go":          "package cloneset\n\n// it it it\n",
		"examples/kinds/cloneset/testdata/x.go":        "no Go\n",
		"examples/apis/apps/conversion/kinds.go": "package conversion\n\nvar kinds = []*kind{\n\ttable[v1alpha1.CloneSet, v1beta1.CloneSet](group, kind{\n\t\tmoves: nil,\n\t}),\n" +
			"\ttable[v1alpha1.DaemonSet, v1beta1.DaemonSet](group, kind{}),\n}\n",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	err := run(&out, root, 5)
	want := "package examples/kinds/cloneset has 33.3 pronouns and relatives per 100 words of comments, at most 5.0 are wanted"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	var rows []string
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "cloneset") || strings.Contains(line, "v1beta1") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	lines := []string{
		"| cloneset | 2 | 0 | 0 | 4 | 0 | 1 | 0 | 3 | 3 | 13 |",
		"| examples/apis/apps/v1beta1 | 0 | 0.0 | 1 | 0 |",
		"| examples/kinds/cloneset | 9 | 33.3 | 6 | 0 |",
	}
	if diff := cmp.Diff(lines, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
