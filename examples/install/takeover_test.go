package install_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/storagemigration"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// released is the folder with the CRDs of OpenKruise 1.9.0 that store their objects as v1alpha1.
const released = "examples/manager/testdata/openkruise-1.9.0-crds"

// cloneSet returns a CloneSet in the version that OpenKruise 1.9.0 stores.
func cloneSet(namespace, policy string) *unstructured.Unstructured {
	labels := map[string]any{"app": "web"}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(1), "selector": map[string]any{"matchLabels": labels}, "updateStrategy": map[string]any{"type": policy},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "example.test/app:v1"}}},
		},
	}}}
	obj.SetAPIVersion("apps.kruise.io/v1alpha1")
	obj.SetKind("CloneSet")
	obj.SetNamespace(namespace)
	obj.SetName("web")
	return obj
}

// openKruise installs the manifests of OpenKruise 1.9.0 with kubectl: CRDs, the CRDs of the kinds in others, and the
// objects that OpenKruise's manager needs. After the test, the objects are removed, except those with the name of the
// manager's namespace, which other tests use.
func (c *cluster) openKruise(ns string, others []kindOf) {
	c.t.Helper()
	const manifests = "examples/install/testdata/openkruise.yaml"
	text, err := os.ReadFile(filepath.Join(root, manifests))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		for _, obj := range parse(c.t, string(text)) {
			if obj.GetName() == namespace { // other tests install into this namespace
				continue
			}
			c.remove(obj)
		}
	})
	c.remove(find(c.t, parse(c.t, string(text)), "DaemonSet", "")) // left by another test
	c.apply("-f", released)
	must(c.t)(kubectl(c.t, "--kubeconfig", c.kubeconfig, "apply", "-f", manifests))
	c.installStub("others", ns, others, "")
	// A running manager also writes fields of the configuration.
	config := find(c.t, parse(c.t, string(text)), "ValidatingWebhookConfiguration", "")
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
		c.t.Fatal(err)
	}
	webhooks, _, _ := unstructured.NestedSlice(config.Object, "webhooks")
	for _, webhook := range webhooks {
		webhook.(map[string]any)["timeoutSeconds"] = int64(20)
	}
	if err := errors.Join(unstructured.SetNestedSlice(config.Object, webhooks, "webhooks"), c.Update(c.t.Context(), config, client.FieldOwner("manager"))); err != nil {
		c.t.Fatal(err)
	}
}

// TestTakeOverWithKubectl: the commands of the README replace OpenKruise's manager by this manager. Objects keep
// their UIDs, objects that kinds of OpenKruise without a counterpart here need are not deleted, no field of
// OpenKruise's Deployment is left, and admission works. The DaemonSet of OpenKruise's daemon becomes the DaemonSet of
// this project's agent, so no Node ever runs both.
func TestTakeOverWithKubectl(t *testing.T) {
	c := fresh(t)
	ns, others := env.Namespace(t), otherKinds()[:2]
	c.openKruise(ns, others)
	web := cloneSet(ns, "InPlaceIfPossible")
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error { return c.Create(ctx, web.DeepCopy()) })
	text, err := os.ReadFile("testdata/openkruise.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := parse(t, string(text))
	kept := []*unstructured.Unstructured{
		web, find(t, objects, "Secret", "registry"), find(t, objects, "Namespace", "kruise-daemon-config"), find(t, objects, "ClusterRole", "kruise-daemon-role"),
		find(t, objects, "DaemonSet", "kruise-daemon"),
	}
	before, beforeOthers := c.present(kept), c.uids(others, ns)

	for _, line := range controllertest.Commands(t, "../README.md", "With kubectl") {
		words := strings.Fields(line)
		if words[0] != "kubectl" {
			t.Fatalf("%s: not a command of kubectl", line)
		}
		must(t)(kubectl(t, append([]string{"--kubeconfig", c.kubeconfig}, words[1:]...)...))
	}
	c.checkDeployment()
	runManager(t, c.asManager())

	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		wrong := cloneSet(ns, "Nonsense")
		wrong.SetName("wrong")
		if err := c.Create(ctx, wrong); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("a CloneSet of an unknown type: %w", err)
		}
		live := web.DeepCopy()
		live.SetAPIVersion("apps.kruise.io/v1beta1")
		if err := c.Get(ctx, client.ObjectKeyFromObject(web), live); err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(live.Object, "status", "replicas"); n != 1 {
			return fmt.Errorf("status %v", live.Object["status"])
		}
		return nil
	})
	if diff := cmp.Diff(before, c.present(kept)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(beforeOthers, c.uids(others, ns)); diff != "" {
		t.Errorf("other kinds (-before +after):\n%s", diff)
	}
}

// TestWayBackWithHelm: once every object is stored in v1alpha1, an upgrade of the release to OpenKruise's chart
// replaces this manager and the CRDs. Objects and Pods keep their UIDs.
func TestWayBackWithHelm(t *testing.T) {
	c := fresh(t)
	ns := env.Namespace(t)
	c.apply("-k", "examples/config/default")                       // the Namespace and the account, for the other tests, too
	for _, workload := range []string{"Deployment", "DaemonSet"} { // a new object has no fields that kubectl has applied
		c.remove(find(t, parse(t, kustomize(t)), workload, ""))
	}
	release := func(args ...string) {
		t.Helper()
		must(t)(helm(t, append(args, "--kubeconfig", c.kubeconfig)...))
	}
	release("upgrade", "--install", "kruise", "examples/charts/kruise", "--namespace", "default", "--take-ownership", "--force-conflicts",
		"--set", "installation.createNamespace=false")
	stop := runManager(t, c.asManager())
	web := cloneSet(ns, "InPlaceIfPossible")
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		if err := c.Create(ctx, web.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if pods := c.pods(ns); len(pods) != 1 {
			return fmt.Errorf("%d Pods", len(pods))
		}
		return nil
	})
	err := storagemigration.Migrate(t.Context(), c, storagemigration.Options{CRDs: kind.StoredIn(kinds.All(), "v1alpha1"), To: "v1alpha1"})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	c.callByService()
	before := c.present(append(c.pods(ns), web))

	var parts strings.Builder
	for _, pattern := range []string{released + "/*.yaml", "examples/manager/testdata/openkruise-1.9.0/crds/*.yaml", "examples/install/testdata/openkruise.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// The Namespace is kept for other tests.
			_, rest, found := strings.Cut(string(text), "metadata: {name: kruise-system, labels: {control-plane: openkruise}}\n")
			if !found {
				rest = "---\n" + string(text)
			}
			parts.WriteString(rest)
		}
	}
	line := controllertest.Commands(t, "../README.md", "Back with helm")[0]
	t.Cleanup(func() {
		release("uninstall", "kruise", "--namespace", "default", "--ignore-not-found")
		c.remove(find(t, parse(t, parts.String()), "Namespace", "kruise-daemon-config"))
	})
	release(strings.Fields(strings.NewReplacer("OPENKRUISE-CHART", stub(t, nil, parts.String()), "NAMESPACE", "default").Replace(line))[1:]...)

	if diff := cmp.Diff(before, c.present(append(c.pods(ns), web))); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := c.Get(t.Context(), client.ObjectKey{Name: "clonesets.apps.kruise.io"}, crd); err != nil {
		t.Fatal(err)
	}
	if versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions"); len(versions) != 1 {
		t.Errorf("%d versions of the CRD of CloneSets", len(versions))
	}
	live := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "kruise-controller-manager"}, live); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"command": {"/manager"}, "env": {"KUBE_CACHE_MUTATION_DETECTOR"}, "ports": {"webhook-server"}, "mounts": {"cert"}, "volumes": {"cert"},
	}
	if diff := cmp.Diff(want, ofContainers(&live.Spec.Template.Spec)); diff != "" {
		t.Errorf("the Deployment (-want +got):\n%s", diff)
	}
	agents := &appsv1.DaemonSet{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "kruise-daemon"}, agents); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]string{"command": {"/kruise-daemon"}, "network": {"host"}}, ofContainers(&agents.Spec.Template.Spec)); diff != "" {
		t.Errorf("the DaemonSet (-want +got):\n%s", diff)
	}
	for _, obj := range parse(t, kustomize(t)) { // the policies would also restrict OpenKruise's daemon
		if strings.HasPrefix(obj.GetKind(), "ValidatingAdmissionPolicy") && c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy()) == nil {
			t.Errorf("%s is still there", key(obj))
		}
	}
}

// callByService makes webhook configurations and CRDs name the Service in place of a URL, as for a manager in the
// cluster. The manager in the test was called by URL.
func (c *cluster) callByService() {
	c.t.Helper()
	const service = `{"url":null,"caBundle":null,"service":{"namespace":"kruise-system","name":"kruise-webhook-service","path":"/convert"}}`
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"conversion":{"webhook":{"clientConfig":`+service+`}}}}`))
	objects := parse(c.t, kustomize(c.t))
	for _, name := range kind.ConvertedCRDs(kinds.All()) {
		if err := c.Patch(c.t.Context(), find(c.t, objects, "CustomResourceDefinition", name), patch); err != nil {
			c.t.Fatal(err)
		}
	}
	c.remove(find(c.t, objects, "MutatingWebhookConfiguration", ""))
	c.remove(find(c.t, objects, "ValidatingWebhookConfiguration", ""))
}

// pods returns the Pods of a Namespace.
func (c *cluster) pods(ns string) (out []*unstructured.Unstructured) {
	c.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("PodList")
	if err := c.List(c.t.Context(), list, client.InNamespace(ns)); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

// checkDeployment checks that the Deployment and the DaemonSet contain no command, environment variable or volume of
// OpenKruise's manifests, with which the manager and the agents could not start.
func (c *cluster) checkDeployment() {
	c.t.Helper()
	manager, agents := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	for name, into := range map[string]client.Object{"kruise-controller-manager": manager, "kruise-daemon": agents} {
		if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
			c.t.Fatal(err)
		}
	}
	objects := parse(c.t, kustomize(c.t))
	for _, pair := range [][2]*corev1.PodSpec{
		{&as[appsv1.Deployment](c.t, find(c.t, objects, "Deployment", "")).Spec.Template.Spec, &manager.Spec.Template.Spec},
		{&as[appsv1.DaemonSet](c.t, find(c.t, objects, "DaemonSet", "")).Spec.Template.Spec, &agents.Spec.Template.Spec},
	} {
		if diff := cmp.Diff(ofContainers(pair[0]), ofContainers(pair[1])); diff != "" {
			c.t.Errorf("%s (-want +got):\n%s", pair[0].Containers[0].Name, diff)
		}
	}
}

// ofContainers returns the commands of a Pod's containers, and the names of their variables, ports and volumes.
func ofContainers(pod *corev1.PodSpec) map[string][]string {
	out := map[string][]string{}
	if pod.HostNetwork {
		out["network"] = []string{"host"}
	}
	for _, container := range pod.Containers {
		out["command"] = append(out["command"], container.Command...)
		for _, variable := range container.Env {
			out["env"] = append(out["env"], variable.Name)
		}
		for _, port := range container.Ports {
			out["ports"] = append(out["ports"], port.Name)
		}
		for _, mount := range container.VolumeMounts {
			out["mounts"] = append(out["mounts"], mount.Name)
		}
	}
	for _, volume := range pod.Volumes {
		out["volumes"] = append(out["volumes"], volume.Name)
	}
	return out
}
