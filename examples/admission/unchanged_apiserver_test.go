package admission_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

// inService returns the kinds whose objects admission accepts only if another object exists, such as a running Pod,
// each with the reason.
func inService() map[string]string {
	return map[string]string{
		"ContainerRecreateRequest": "a request is about a running Pod",
		"PodUnavailableBudget":     "the webhooks of this test are of another group",
	}
}

// manifestsOf returns the manifests of a kind by version, from the kind's testdata. Every field has some value; NAME
// is a placeholder. A kind without a manifest in v1alpha1 has the same fields in both versions.
func manifestsOf(t *testing.T, row kind.Row) map[string]string {
	t.Helper()
	read := func(version string) ([]byte, error) {
		return os.ReadFile(filepath.Join("../kinds", row.Name(), "testdata/manifests", version+".yaml"))
	}
	stored, err := read(row.Kind.Version)
	if err != nil {
		t.Fatal(err)
	}
	if !row.Converted {
		return map[string]string{row.Kind.Version: string(stored)}
	}
	beta := stored
	alpha, err := read("v1alpha1")
	if errors.Is(err, fs.ErrNotExist) {
		alpha, err = bytes.Replace(beta, []byte("v1beta1"), []byte("v1alpha1"), 1), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"v1alpha1": string(alpha), "v1beta1": string(beta)}
}

// TestUnchangedManifests: if a user applies an unchanged file a second time, with client-side or with server-side
// apply, or replaces the object by the file, the object does not change.
func TestUnchangedManifests(t *testing.T) {
	for _, row := range kinds.All() {
		t.Run(row.Kind.Kind, func(t *testing.T) {
			if why := inService()[row.Kind.Kind]; why != "" {
				t.Skip(why)
			}
			c := served(t, row)
			for version, text := range manifestsOf(t, row) {
				for _, flags := range [][]string{{"apply"}, {"apply", "--server-side"}, {"replace"}} {
					c.unchanged(strings.ToLower(row.Name()+"-"+version+strings.Join(flags, "")), text, flags)
				}
			}
		})
	}
}

// served returns a cluster that serves a kind in all versions. A kind that start does not serve is served alone.
func served(t *testing.T, row kind.Row) *cluster {
	t.Helper()
	c := start(t)
	if err := row.AddToScheme(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	crd := row.Resource + "." + row.Kind.Group
	if !slices.ContainsFunc(c.configurations(), func(object *unstructured.Unstructured) bool { return object.GetName() == crd }) {
		options := admission.Options{Client: c, Reader: c, Namespace: "default", Gates: map[apps.Gate]bool{apps.GateResourceDistribution: true, apps.GateImagePullJob: true}}
		c.serveAlone(t, row.Name(), options, kind.Endpoints([]kind.Row{row}, options)...)
	}
	return c
}

// unchanged applies a manifest twice, and then replaces the object by the manifest.
func (c *cluster) unchanged(name, text string, flags []string) {
	c.t.Helper()
	text = strings.ReplaceAll(text, "NAME", name)
	path := filepath.Join(c.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	flags = append(flags, "-n", c.namespace, "-f", path)
	object := &unstructured.Unstructured{Object: admissiontest.Manifest(c.t, text)}
	object.SetNamespace(c.namespace)
	if flags[0] == "replace" {
		c.kubectl("create", "-n", c.namespace, "-f", path)
	}
	for i := range 3 {
		c.kubectl(flags...)
		if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			c.t.Fatal(err)
		}
		if object.GetGeneration() != 1 {
			c.t.Errorf("%s of %s, time %d: generation %d: %s", flags[0], name, i+1, object.GetGeneration(), admissiontest.Encode(c.t, object.Object["spec"]))
		}
	}
}
