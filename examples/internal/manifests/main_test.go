package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/kinds"
)

// TestManifestsAreCurrent: the committed manifests follow from the rows.
func TestManifestsAreCurrent(t *testing.T) {
	const config = "../../config"
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(config)); err != nil {
		t.Fatal(err)
	}
	if err := write(dir, kinds.All()); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(config, name))
		if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
			t.Errorf("%s, %v; run make generate (-want +got):\n%s", name, err, diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRolesOfKinds: a kind whose objects reach into other namespaces is in no built-in role, and neither is a kind with
// secrets.
func TestRolesOfKinds(t *testing.T) {
	for _, r := range kinds.All() {
		edit, view := strings.Contains(editor(&r), "aggregate-to-edit"), strings.Contains(viewer(&r), "aggregate-to-view")
		if edit == r.ClusterScoped || view == (r.Secret != "") || r.ClusterScoped != (r.Reach != "") {
			t.Errorf("%s: editors by edit %t, viewers by view %t", r.Kind.Kind, edit, view)
		}
	}
}

func TestWithEntries(t *testing.T) {
	const before = "kind: X\nwebhooks:\n- name: old\n# Pods.\n- name: mpod\n"
	got, err := withEntries(before, "- name: new\n")
	if want := "kind: X\nwebhooks:\n- name: new\n# Pods.\n- name: mpod\n"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, wrong := range []string{"", "kind: X\n# Pods.\n", "kind: X\nwebhooks:\n- name: old\n"} {
		if _, err := withEntries(wrong, ""); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
