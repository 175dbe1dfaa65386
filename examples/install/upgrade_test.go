package install_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// kindOf contains the names needed to install a CRD and to create an object of its kind.
type kindOf struct {
	plural, group, kind string
	cluster             bool
}

func (k kindOf) crd() string { return k.plural + "." + k.group }

// otherKinds returns kinds of the API group that the chart does not install, because a later OpenKruise may have such
// kinds.
func otherKinds() []kindOf {
	const apps = "apps.kruise.io"
	return []kindOf{{"configmapsets", apps, "ConfigMapSet", false}, {"nodesets", apps, "NodeSet", true}}
}

// parts returns a Namespace and three roles, as OpenKruise's chart contains such objects. The first role gives users
// permissions for the kind other, which no role of this chart does. The permissions of the second role are also in
// this chart. The third role is for OpenKruise's manager.
func parts(other kindOf) string {
	return strings.ReplaceAll(`---
apiVersion: v1
kind: Namespace
metadata: {name: kruise-daemon-config}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: aggregate-kruise-others-edit, labels: {rbac.authorization.k8s.io/aggregate-to-edit: "true"}}
rules: [{apiGroups: [apps.kruise.io], resources: [clonesets, OTHER/status], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: aggregate-kruise-clonesets-edit, labels: {rbac.authorization.k8s.io/aggregate-to-edit: "true"}}
rules: [{apiGroups: [apps.kruise.io], resources: [clonesets, clonesets/status], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kruise-own-role}
rules: [{apiGroups: [apps.kruise.io], resources: [nodeimages], verbs: ["*"]}]
`, "OTHER", other.plural)
}

// stub writes a Helm chart that stands for OpenKruise's chart: it installs the CRDs of the given kinds, and the
// objects in others. As in OpenKruise's chart, the CRDs are templates, so that Helm would delete CRDs that a new
// chart lacks.
func stub(t testing.TB, installed []kindOf, others string) (path string) {
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
		"Chart.yaml": "apiVersion: v2\nname: kruise\nversion: 1.9.0\n", "templates/crds.yaml": crds.String() + others,
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

// uids returns the UIDs of the existing CRDs and of their objects, so that a test can compare them later.
func (c *cluster) uids(installed []kindOf, namespace string) map[string]string {
	c.t.Helper()
	var objects []*unstructured.Unstructured
	for _, k := range installed {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName(k.crd())
		objects = append(objects, crd, k.object(namespace))
	}
	return c.present(objects)
}

// present returns the UIDs of the objects that exist.
func (c *cluster) present(objects []*unstructured.Unstructured) map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for _, obj := range objects {
		live := obj.DeepCopy()
		switch err := c.Get(c.t.Context(), client.ObjectKeyFromObject(obj), live); {
		case err != nil:
			out[key(obj)] = "gone: " + err.Error()
		case live.GetDeletionTimestamp() != nil:
			out[key(obj)] = "going"
		default:
			out[key(obj)] = string(live.GetUID())
		}
	}
	return out
}

// installStub installs the stub as a release, and an object of each kind. Both are removed after the test.
func (c *cluster) installStub(release, namespace string, installed []kindOf, others string) {
	c.t.Helper()
	must(c.t)(helm(c.t, "install", release, stub(c.t, installed, others), "--kubeconfig", c.kubeconfig, "--namespace", "default"))
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
		// The creation is repeated until the API server serves the kind.
		controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error { return c.Create(ctx, k.object(namespace)) })
	}
}

// remove deletes an object, and waits until it does not exist. remove also works after the end of the test.
func (c *cluster) remove(obj client.Object) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), time.Minute)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := c.Delete(ctx, obj.DeepCopyObject().(client.Object))
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		c.t.Errorf("removing %s: %v", obj.GetName(), err)
	}
}

// TestUpgradeOfOpenKruisesReleaseKeepsWhatOthersNeed: the upgrade of OpenKruise's Helm release to this chart must not
// delete objects of kinds that the chart does not have, a Namespace with its Secrets, or permissions of users. The
// upgrade fails with a message about how to protect these objects, and succeeds when the objects are protected.
func TestUpgradeOfOpenKruisesReleaseKeepsWhatOthersNeed(t *testing.T) {
	c := fresh(t)
	others, ns, elsewhere := otherKinds(), env.Namespace(t), "helm-"+rand.String(5)
	more := parts(others[0])
	// The upgrade ignores CRDs of another Helm release, and CRDs that are already protected.
	c.installStub("stranger", ns, []kindOf{{"strangers", "stranger.test", "Stranger", false}}, "")
	c.installStub("kruise", ns, others, more)
	var kept, gone []*unstructured.Unstructured
	for _, obj := range parse(t, more) {
		if slices.Contains([]string{"kruise-daemon-config", "aggregate-kruise-others-edit"}, obj.GetName()) {
			kept = append(kept, obj)
		} else {
			gone = append(gone, obj)
		}
	}
	// OpenKruise's manager copies Secrets into this Namespace.
	secret := &unstructured.Unstructured{}
	secret.SetAPIVersion("v1")
	secret.SetKind("Secret")
	secret.SetNamespace("kruise-daemon-config")
	secret.SetName("registry")
	if err := c.Create(t.Context(), secret.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, secret)
	state := func() map[string]string {
		out := c.uids(others, ns)
		maps.Copy(out, c.present(kept))
		return out
	}
	before := state()
	t.Cleanup(func() {
		for _, obj := range kept {
			c.remove(obj)
		}
	})

	lines := controllertest.Commands(t, "../README.md", "With helm")
	upgrade := strings.Fields(strings.ReplaceAll(lines[0], "NAMESPACE", "default"))[1:]
	upgrade = append(upgrade, "--kubeconfig", c.kubeconfig, "--wait", "--timeout=2m", "--set", "installation.namespace="+elsewhere)
	_, err := helm(t, upgrade...)
	if err == nil {
		t.Errorf("upgraded, and deleted what was not protected")
	}
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Fatalf("after a refused upgrade (-before +after):\n%s", diff)
	}
	var want []string
	for _, k := range others {
		want = append(want, k.crd())
	}
	wantCommands := []string{
		"kubectl annotate crd " + strings.Join(slices.Sorted(slices.Values(want)), " ") + " helm.sh/resource-policy=keep",
		"kubectl annotate namespace kruise-daemon-config helm.sh/resource-policy=keep",
		"kubectl annotate clusterrole aggregate-kruise-others-edit helm.sh/resource-policy=keep",
	}
	got := regexp.MustCompile(`(?m)^kubectl annotate .*$`).FindAllString(err.Error(), -1)
	if diff := cmp.Diff(wantCommands, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s\n%v", diff, err)
	}
	for i, line := range got {
		must(t)(kubectl(t, append([]string{"--kubeconfig", c.kubeconfig}, strings.Fields(line)[1:]...)...))
		if _, err := helm(t, upgrade...); (err == nil) != (i == len(got)-1) {
			t.Fatalf("after %s: %v", line, err)
		}
	}

	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("after the upgrade (-before +after):\n%s", diff)
	}
	for name, uid := range c.present(gone) {
		if !strings.HasPrefix(uid, "gone") {
			t.Errorf("%s is still there", name)
		}
	}
	must(t)(helm(t, upgrade...))
	must(t)(helm(t, "uninstall", "kruise", "--kubeconfig", c.kubeconfig, "--namespace", "default"))
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("after another upgrade and the end of the release (-before +after):\n%s", diff)
	}
}

// TestUpgradeWithoutCRDsKeepsThoseOfBuiltKinds: an upgrade of OpenKruise's Helm release that does not install this
// chart's CRDs must not delete the CRDs of this project's kinds. Helm does not delete protected CRDs.
func TestUpgradeWithoutCRDsKeepsThoseOfBuiltKinds(t *testing.T) {
	c := fresh(t)
	var built []kindOf
	var crds []string
	for _, k := range kinds.All() {
		built = append(built, kindOf{k.Resource, k.Kind.Group, k.Kind.Kind, k.ClusterScoped})
		crds = append(crds, built[len(built)-1].crd())
	}
	command := "kubectl annotate crd " + strings.Join(slices.Sorted(slices.Values(crds)), " ") + " helm.sh/resource-policy=keep"
	ns := env.Namespace(t)
	c.installStub("kruise", ns, built, "")
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
