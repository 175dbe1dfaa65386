package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	head   = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: as.test\nspec:\n"
	group  = "  group: test\n"
	single = "  versions:\n  - name: v1\n"
	double = single + "  - name: v2\n    description: |-\n      folded  text\n\n      spec:\n"
)

func TestAdd(t *testing.T) {
	tests := []struct{ name, crd, want, wantErr string }{
		{name: "one version needs no conversion", crd: head + group + single, want: head + group + single},
		{name: "two versions", crd: head + group + double, want: head + conversion + group + double},
		{name: "nothing is added twice", crd: head + conversion + group + double, want: head + conversion + group + double},
		{
			name: "a conversion by hand stays", crd: head + "  conversion: {strategy: None}\n" + group + double,
			want: head + "  conversion: {strategy: None}\n" + group + double,
		},
		{name: "another layout", crd: head + "  scope: Namespaced\n" + group + double, wantErr: "spec does not begin with group"},
		{name: "another kind", crd: "kind: Pod\n", wantErr: `kind "Pod"`},
		{name: "no YAML", crd: "\t{", wantErr: "yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := add([]byte(tt.crd))
			if (err == nil) != (tt.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRewriteChangesOnlyWhatItMust(t *testing.T) {
	dir := t.TempDir()
	if err := rewrite(dir); err == nil {
		t.Error("an empty directory passes for one with CRDs")
	}
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two := write("one.yaml", head+group+single), write("two.yaml", head+group+double)
	for range 2 {
		if err := rewrite(dir); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{one: head + group + single, two: head + conversion + group + double} {
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
	}
	write("three.yaml", "kind: Pod")
	if err := rewrite(dir); err == nil || !strings.Contains(err.Error(), "three.yaml") {
		t.Errorf("error %v does not name the file", err)
	}
}
