package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

// TestManifestsAreCurrent: the committed manifests and tables equal the manifests and tables that the command
// generates from the table of kinds.
func TestManifestsAreCurrent(t *testing.T) {
	const root = "../../.."
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples", "config"), os.DirFS(filepath.Join(root, "examples", "config"))); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"SECURITY.md", "examples/README.md"} {
		raw, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, page), raw, 0o600); err != nil {
			t.Fatal(err)
		}
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
		got, err := os.ReadFile(filepath.Join(root, name))
		if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
			t.Errorf("%s, %v; run make generate (-want +got):\n%s", name, err, diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRolesOfKinds: the roles that Kubernetes aggregates into admin, edit and view include no kind whose objects
// affect other namespaces. The role view includes no kind whose objects may contain secrets.
func TestRolesOfKinds(t *testing.T) {
	for _, r := range kinds.All() {
		edit, view := strings.Contains(editor(&r), "aggregate-to-edit"), strings.Contains(viewer(&r), "aggregate-to-view")
		if edit == r.ClusterScoped || view == (r.Secret != "") || r.ClusterScoped != (r.Reach != "") {
			t.Errorf("%s: editors by edit %t, viewers by view %t", r.Kind.Kind, edit, view)
		}
	}
}

func TestWithTable(t *testing.T) {
	const before = "Rights:\n\n<!-- make generate: rights -->\nold\n<!-- end -->\n\nMore.\n"
	got, err := withTable(before, "rights", "new\n")
	if want := "Rights:\n\n<!-- make generate: rights -->\nnew\n<!-- end -->\n\nMore.\n"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, wrong := range []string{"", "<!-- end -->", "<!-- make generate: rights -->\nold\n", "<!-- make generate: metrics -->\nold\n<!-- end -->\n"} {
		if _, err := withTable(wrong, "rights", ""); err == nil {
			t.Errorf("%q is taken", wrong)
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

// TestRights: the RBAC rules that a kind needs, also for objects of other groups, are written above the rules that
// all kinds share. The manager may only read the CRD of a kind with a single version.
func TestRights(t *testing.T) {
	rows := []kind.Row{{
		Kind: schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "ConfigSet"}, Resource: "configsets", Converted: true,
		Rights: kind.Rights{
			Objects: []string{"get", "watch"}, Status: true, Owns: true, Why: "ConfigMaps are made.",
			More: []kind.Right{{Resources: []string{"configmaps"}, Verbs: []string{"create"}}, {Group: "*", Resources: []string{"*/scale"}, Verbs: []string{"get"}}},
		},
	}, {Kind: schema.GroupVersionKind{Group: "apps.kruise.io", Kind: "Apart"}, Resource: "aparts"}}
	const before = "kind: ClusterRole\nrules:\n# Old.\n- apiGroups: [old]\n# Shared by the kinds.\n- apiGroups: [shared]\n  resources: [x]\n  verbs: [get]\n"
	raw, err := withRights(before, rows)
	if err != nil {
		t.Fatal(err)
	}
	var got rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"apps.kruise.io"}, Resources: []string{"configsets"}, Verbs: []string{"get", "watch"}},
		{APIGroups: []string{"apps.kruise.io"}, Resources: []string{"configsets/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"apps.kruise.io"}, Resources: []string{"configsets/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		{APIGroups: []string{"*"}, Resources: []string{"*/scale"}, Verbs: []string{"get"}},
		{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"},
			ResourceNames: []string{"configsets.apps.kruise.io"}, Verbs: []string{"get", "list", "watch", "patch"},
		},
		{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"},
			ResourceNames: []string{"aparts.apps.kruise.io"}, Verbs: []string{"list", "watch"},
		},
		{APIGroups: []string{"shared"}, Resources: []string{"x"}, Verbs: []string{"get"}},
	}
	if diff := cmp.Diff(want, got.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if _, err := withRights("kind: ClusterRole\n", rows); err == nil {
		t.Error("a role without the place for rules is accepted")
	}
}
