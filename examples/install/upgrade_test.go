package install_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// kindOf has all fields needed to install a kind and to make an object of the kind.
type kindOf struct {
	plural, group, kind string
	cluster             bool
}

func (k kindOf) crd() string { return k.plural + "." + k.group }

// otherKinds are the kinds installed by OpenKruise 1.9 and not by the chart.
func otherKinds() []kindOf {
	const apps = "apps.kruise.io"
	return []kindOf{
		{"ephemeraljobs", apps, "EphemeralJob", false},
		{"imagelistpulljobs", apps, "ImageListPullJob", false},
		{"imagepulljobs", apps, "ImagePullJob", false},
		{"nodeimages", apps, "NodeImage", true},
		{"nodepodprobes", apps, "NodePodProbe", true},
		{"podprobemarkers", apps, "PodProbeMarker", false},
		{"uniteddeployments", apps, "UnitedDeployment", false},
		{"workloadspreads", apps, "WorkloadSpread", false},
	}
}

// stub writes a chart that only installs CRDs of these kinds, among its templates like OpenKruise's chart.
func stub(t testing.TB, installed []kindOf) (path string) {
	t.Helper()
	path = t.TempDir()
	var crds strings.Builder
	for _, k := range installed {
		scope := "Namespaced"
		if k.cluster {
			scope = "Cluster"
		}
		fmt.Fprintf(&crds, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s}
spec:
  group: %s
  scope: %s
  names: {kind: %s, listKind: %[4]sList, plural: %s, singular: %s}
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, k.crd(), k.group, scope, k.kind, k.plural, strings.ToLower(k.kind))
	}
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: kruise\nversion: 1.9.0\n", "templates/crds.yaml": crds.String(),
	} {
		file := filepath.Join(path, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// object returns an object of a kind, in the test's namespace if the kind is namespaced.
func (k kindOf) object(namespace string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"mine": "yes"}}}
	obj.SetAPIVersion(k.group + "/v1beta1")
	obj.SetKind(k.kind)
	obj.SetName("kept")
	if !k.cluster {
		obj.SetNamespace(namespace)
	}
	return obj
}

// uids returns the UIDs of the present CRDs and of their objects, for comparison with an earlier state.
func (c *cluster) uids(installed []kindOf, namespace string) map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for _, k := range installed {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName(k.crd())
		for _, obj := range []*unstructured.Unstructured{crd, k.object(namespace)} {
			name := obj.GetKind() + " " + k.crd()
			switch err := c.Get(c.t.Context(), client.ObjectKeyFromObject(obj), obj); {
			case err != nil:
				out[name] = "gone: " + err.Error()
			case obj.GetDeletionTimestamp() != nil:
				out[name] = "going"
			default:
				out[name] = string(obj.GetUID())
			}
		}
	}
	return out
}

// installStub installs the stub as a release and an object of each kind, and removes both after the test.
func (c *cluster) installStub(release, namespace string, installed []kindOf) {
	c.t.Helper()
	must(c.t)(helm(c.t, "install", release, stub(c.t, installed), "--kubeconfig", c.kubeconfig, "--namespace", "default"))
	c.t.Cleanup(func() {
		must(c.t)(helm(c.t, "uninstall", release, "--ignore-not-found", "--kubeconfig", c.kubeconfig, "--namespace", "default"))
		for _, k := range installed {
			crd := &unstructured.Unstructured{}
			crd.SetAPIVersion("apiextensions.k8s.io/v1")
			crd.SetKind("CustomResourceDefinition")
			crd.SetName(k.crd())
			if err := c.Delete(context.WithoutCancel(c.t.Context()), crd); client.IgnoreNotFound(err) != nil {
				c.t.Error(err)
			}
		}
	})
	for _, k := range installed {
		// Retry until the kind is served.
		controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error { return c.Create(ctx, k.object(namespace)) })
	}
}

// TestUpgradeOfOpenKruisesReleaseKeepsItsCRDs: nobody may delete the objects of kinds unknown to the chart. An upgrade
// of OpenKruise's release tells the user how to protect the objects, and goes on once the objects are protected.
func TestUpgradeOfOpenKruisesReleaseKeepsItsCRDs(t *testing.T) {
	c := fresh(t)
	others, ns, elsewhere := otherKinds(), env.Namespace(t), "helm-"+rand.String(5)
	// CRDs of another release, and CRDs already kept, do not concern this release.
	c.installStub("stranger", ns, []kindOf{{"strangers", "stranger.test", "Stranger", false}})
	c.installStub("kruise", ns, others)
	before := c.uids(others, ns)

	upgrade := []string{
		"upgrade", "kruise", "examples/charts/kruise", "--kubeconfig", c.kubeconfig, "--namespace", "default", "--take-ownership",
		"--force-conflicts", "--wait", "--timeout=2m", "--set", "installation.namespace=" + elsewhere,
	}
	_, err := helm(t, upgrade...)
	if err == nil {
		t.Errorf("upgraded, and deleted what was not protected")
	}
	if diff := cmp.Diff(before, c.uids(others, ns)); diff != "" {
		t.Fatalf("after a refused upgrade (-before +after):\n%s", diff)
	}
	command := regexp.MustCompile(`kubectl (annotate crd .* helm\.sh/resource-policy=keep)`).FindStringSubmatch(err.Error())
	if command == nil {
		t.Fatalf("no command in\n%v", err)
	}
	words := strings.Fields(command[1])
	var want []string
	for _, k := range others {
		want = append(want, k.crd())
	}
	got := slices.Sorted(slices.Values(words[2 : len(words)-1]))
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), got); diff != "" {
		t.Errorf("CRDs to protect (-want +got):\n%s", diff)
	}

	must(t)(kubectl(t, append([]string{"--kubeconfig", c.kubeconfig}, words...)...))
	must(t)(helm(t, upgrade...))
	if diff := cmp.Diff(before, c.uids(others, ns)); diff != "" {
		t.Errorf("after the upgrade (-before +after):\n%s", diff)
	}
	must(t)(helm(t, upgrade...))
	must(t)(helm(t, "uninstall", "kruise", "--kubeconfig", c.kubeconfig, "--namespace", "default"))
	if diff := cmp.Diff(before, c.uids(others, ns)); diff != "" {
		t.Errorf("after another upgrade and the end of the release (-before +after):\n%s", diff)
	}
}

// TestUpgradeWithoutCRDsKeepsThoseOfBuiltKinds: without the chart's CRDs an upgrade would also delete the CRDs of the
// kinds built here. Kept CRDs belong to no release.
func TestUpgradeWithoutCRDsKeepsThoseOfBuiltKinds(t *testing.T) {
	c := fresh(t)
	var built []kindOf
	var crds []string
	for _, k := range kinds.All() {
		built = append(built, kindOf{k.Resource, k.Kind.Group, k.Kind.Kind, k.Resource == "sidecarsets" || k.Resource == "resourcedistributions"})
		crds = append(crds, built[len(built)-1].crd())
	}
	command := "kubectl annotate crd " + strings.Join(slices.Sorted(slices.Values(crds)), " ") + " helm.sh/resource-policy=keep"
	ns := env.Namespace(t)
	c.installStub("kruise", ns, built)
	before := c.uids(built, ns)
	for _, tc := range []struct {
		name  string
		args  []string
		fails bool
	}{
		{"CRDs are somebody else's", []string{"--dry-run=server", "--set", "crds.managed=false"}, true},
		{"CRDs are the chart's", []string{"--dry-run=server"}, false},
		{"nobody is asked", []string{"--dry-run=client", "--set", "crds.managed=false"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := []string{"upgrade", "kruise", "examples/charts/kruise", "--kubeconfig", c.kubeconfig, "--namespace", "default", "--take-ownership"}
			_, err := helm(t, append(args, tc.args...)...)
			if tc.fails != (err != nil && strings.Contains(err.Error(), command)) {
				t.Errorf("error %v", err)
			}
		})
	}
	if diff := cmp.Diff(before, c.uids(built, ns)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
