package install_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// cluster is a client of the control plane with the rights of an administrator.
type cluster struct {
	client.WithWatch
	t          testing.TB
	kubeconfig string
}

// fresh returns a client of the control plane, after deleting the cluster-wide objects that an earlier test has
// installed, and the objects that a manager has left.
func fresh(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	c, err := manager.NewClient(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	out := &cluster{WithWatch: c, t: t, kubeconfig: cp.Kubeconfig()}
	left := []client.Object{
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kruise-manager"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kruise-webhook-certs"}},
	}
	for _, obj := range parse(t, kustomize(t)) {
		if obj.GetKind() == "CustomResourceDefinition" || strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
			left = append(left, obj)
		}
	}
	for _, obj := range left {
		patience := time.Now().Add(20 * time.Second)
		controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
			err := c.Delete(ctx, obj)
			if err == nil && time.Now().After(patience) {
				out.letGo(ctx, obj)
				patience = time.Now().Add(20 * time.Second)
			}
			if err == nil {
				return fmt.Errorf("%s is still there: %v", obj.GetName(), out.conditions(obj))
			}
			return client.IgnoreNotFound(err)
		})
	}
	return out
}

// letGo removes the finalizers of an object whose deletion does not end. Before the API server deletes a CRD, the API
// server looks for the CRD's objects without a time limit, in a storage that is replaced at each change of the CRD.
// In rare runs this search never ends.
func (c *cluster) letGo(ctx context.Context, obj client.Object) {
	c.t.Logf("%s does not go away: %v", obj.GetName(), c.conditions(obj))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := c.Patch(ctx, obj.DeepCopyObject().(client.Object), patch); client.IgnoreNotFound(err) != nil {
		c.t.Log(err)
	}
}

// conditions returns the present conditions of an object, which show why the deletion does not end.
func (c *cluster) conditions(obj client.Object) any {
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(obj), live); err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	return conditions
}

// apply applies manifests with kubectl, by server-side apply.
func (c *cluster) apply(args ...string) {
	c.t.Helper()
	must(c.t)(kubectl(c.t, append([]string{"--kubeconfig", c.kubeconfig, "apply", "--server-side"}, args...)...))
}

// read returns the objects from the API server.
func (c *cluster) read(objects map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	c.t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for name, obj := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(obj.GroupVersionKind())
		if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(obj), live); err != nil {
			c.t.Fatal(err)
		}
		out[name] = live
	}
	return out
}

// untilRunning waits until the CRDs can be used and the Deployment has all replicas. Afterwards nothing changes any
// more.
func (c *cluster) untilRunning(objects map[string]*unstructured.Unstructured) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(context.Context) error {
		var errs error
		for name, live := range c.read(objects) {
			switch live.GetKind() {
			case "CustomResourceDefinition":
				for _, want := range []string{"Established", "NamesAccepted"} {
					if !holds(live, want) {
						errs = errors.Join(errs, fmt.Errorf("%s is not %s", name, want))
					}
				}
			case "DaemonSet":
				d := new(appsv1.DaemonSet)
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, d); err != nil {
					return err
				}
				s := d.Status
				if s.ObservedGeneration != d.Generation || s.DesiredNumberScheduled == 0 || s.UpdatedNumberScheduled != s.DesiredNumberScheduled || s.NumberAvailable != s.DesiredNumberScheduled {
					errs = errors.Join(errs, fmt.Errorf("%s: %+v", name, s))
				}
			case "ValidatingAdmissionPolicy":
				if seen, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration"); seen != live.GetGeneration() {
					errs = errors.Join(errs, fmt.Errorf("%s: nobody has looked for wrong types", name))
				}
			case "Deployment":
				d := new(appsv1.Deployment)
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, d); err != nil {
					return err
				}
				s := d.Status
				if s.ObservedGeneration != d.Generation || s.AvailableReplicas != *d.Spec.Replicas || s.Replicas != s.UpdatedReplicas || s.Replicas != s.AvailableReplicas {
					errs = errors.Join(errs, fmt.Errorf("%s: %+v", name, s))
				}
			}
		}
		return errs
	})
}

func holds(obj *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		c, ok := item.(map[string]any)
		return ok && c["type"] == condition && c["status"] == "True"
	})
}

func TestInstallTwice(t *testing.T) {
	for _, tc := range []struct {
		name string
		// render returns the manifests and the arguments for kubectl.
		render func(testing.TB) (manifests string, args []string)
	}{
		{"kustomization", func(t testing.TB) (string, []string) { return kustomize(t), []string{"-k", "examples/config/default"} }},
		{"chart", func(t testing.TB) (string, []string) {
			text, path := must(t)(template(t)), filepath.Join(t.TempDir(), "chart.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return text, []string{"-f", path}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fresh(t)
			text, args := tc.render(t)
			objects := parse(t, text)
			c.apply(args...)
			c.untilRunning(objects)
			before := withoutTimes(c.read(objects))
			c.apply(args...)
			if diff := cmp.Diff(before, withoutTimes(c.read(objects))); diff != "" {
				t.Errorf("applied again (-before +after):\n%s", diff)
			}
			c.checkPods()
		})
	}
}

// withoutTimes removes the times in managedFields from policies. After the API server has written the status of a
// policy, the next server-side apply sets new times without another change. The generation of a policy would show a
// real change.
func withoutTimes(objects map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	for _, obj := range objects {
		if obj.GetKind() == "ValidatingAdmissionPolicy" {
			obj.SetManagedFields(nil)
			obj.SetResourceVersion("")
		}
	}
	return objects
}

func TestBuiltInRolesExtendToEveryKind(t *testing.T) {
	c := fresh(t)
	c.apply("-k", "examples/config/default")
	for name, want := range map[string][]string{"view": {"get"}, "edit": {"get", "delete"}, "admin": {"get", "delete"}} {
		controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
			var role rbacv1.ClusterRole
			if err := c.Get(ctx, client.ObjectKey{Name: name}, &role); err != nil {
				return err
			}
			for _, k := range kinds.All() {
				for _, verb := range []string{"get", "delete"} {
					granted := slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
						return slices.Contains(rule.APIGroups, k.Kind.Group) && slices.Contains(rule.Resources, k.Resource) && slices.Contains(rule.Verbs, verb)
					})
					// Cluster-scoped objects affect all namespaces, so no aggregated role for a namespace lets users
					// write such an object. A ResourceDistribution may also contain a Secret.
					grants := slices.Contains(want, verb) && (verb == "get" || !k.ClusterScoped) && k.Resource != "resourcedistributions"
					if granted != grants {
						return fmt.Errorf("role %s grants %s on %s: %v", name, verb, k.Resource, granted)
					}
				}
			}
			return nil
		})
	}
}

// checkPods checks the Pods of the Deployment.
func (c *cluster) checkPods() {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.List(c.t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{"control-plane": "controller-manager"}); err != nil {
		c.t.Fatal(err)
	}
	nodes := map[string]int{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			nodes[pod.Spec.NodeName]++
		}
	}
	if len(nodes) != 2 {
		c.t.Errorf("Pods by Node are %v, want one on each of two", nodes)
	}
	// The API server warns if a running Pod breaks the rules of the Pod security standard. The Pods of agents break a
	// rule, because the sockets of container runtimes belong to root.
	out, err := kubectl(c.t, "--kubeconfig", c.kubeconfig, "label", "--dry-run=server", "--overwrite", "--warnings-as-errors",
		"namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	if err == nil || !strings.Contains(err.Error(), "kruise-daemon-") || strings.Contains(err.Error(), "kruise-controller-manager") {
		c.t.Errorf("against the Pod security standard restricted: %v\n%s", err, out)
	}
}

// TestHelmRelease: Helm installs, upgrades and removes the chart. The fields that the manager adds to the chart's
// objects survive an upgrade, and workloads survive the removal, because their CRDs stay.
func TestHelmRelease(t *testing.T) {
	c := fresh(t)
	elsewhere := "helm-" + rand.String(5)
	release := func(args ...string) string {
		t.Helper()
		return must(t)(helm(t, append(args, "--kubeconfig", c.kubeconfig, "--namespace", "default")...))
	}
	// The Helm release becomes the owner of the ClusterRoles that other tests have left.
	upgrade := []string{
		"upgrade", "--install", "kruise", "examples/charts/kruise", "--take-ownership", "--force-conflicts", "--wait", "--timeout=2m",
		"--set", "installation.namespace=" + elsewhere,
	}
	notes := release(upgrade...)
	objects := parse(t, must(t)(template(t, `installation.namespace="`+elsewhere+`"`)))
	c.untilRunning(objects)
	c.follow(notes, elsewhere)

	const bundle = "spec.conversion.webhook.clientConfig.caBundle"
	crds := kind.ConvertedCRDs(kinds.All())
	body := `[{"op":"add","path":"/` + strings.ReplaceAll(bundle, ".", "/") + `","value":"` + c.authority() + `"}]`
	for _, name := range crds {
		crd := find(t, objects, "CustomResourceDefinition", name)
		if err := c.Patch(t.Context(), crd.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	service := find(t, c.read(objects), "Service", "")
	release(append(upgrade, "--set", "manager.replicas=3", "--set", "webhookConfiguration.timeoutSeconds=20")...)
	after := c.read(objects)
	for _, name := range crds {
		if got, _, _ := unstructured.NestedString(find(t, after, "CustomResourceDefinition", name).Object, strings.Split(bundle, ".")...); got == "" {
			t.Errorf("the upgrade has taken the CA bundle out of the CRD %s", name)
		}
	}
	address := func(obj *unstructured.Unstructured) string {
		ip, _, _ := unstructured.NestedString(obj.Object, "spec", "clusterIP")
		return ip
	}
	if got, want := address(find(t, after, "Service", "")), address(service); got != want || want == "" {
		t.Errorf("the Service has address %q, and had %q", got, want)
	}
	if n, _, _ := unstructured.NestedInt64(find(t, after, "Deployment", "").Object, "spec", "replicas"); n != 3 {
		t.Errorf("%d replicas after the upgrade", n)
	}

	release("uninstall", "kruise")
	for _, obj := range objects {
		live := obj.DeepCopy()
		err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), live)
		if err == nil && live.GetDeletionTimestamp() == nil && obj.GetKind() != "CustomResourceDefinition" {
			t.Errorf("%s is still there", key(obj))
		}
		if client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
	for _, name := range crds {
		crd := find(t, objects, "CustomResourceDefinition", name)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd.DeepCopy()); err != nil {
			t.Errorf("the CRD has not been kept: %v", err)
		}
	}
	for _, k := range kinds.All() {
		c.checkLeftAlone(k)
	}
}

// follow runs the commands in the notes that the chart prints after an installation, and checks the result.
func (c *cluster) follow(notes, namespace string) {
	c.t.Helper()
	var crds []string
	for _, k := range kinds.All() {
		crds = append(crds, k.Resource+"."+k.Kind.Group)
	}
	for _, text := range append([]string{
		"kruise-controller-manager", namespace, "helm uninstall kruise --namespace default", "v1alpha1",
		"kruise-webhook-certs", "kubectl delete crd " + strings.Join(slices.Sorted(slices.Values(crds)), " "), "What stays: the CRDs of these kinds",
	}, crds...) {
		if !strings.Contains(notes, text) {
			c.t.Errorf("the notes do not name %s:\n%s", text, notes)
		}
	}
	commands := 0
	for line := range strings.Lines(notes) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "kubectl" && words[1] != "delete" {
			commands++
			must(c.t)(kubectl(c.t, append([]string{"--kubeconfig", c.kubeconfig}, words[1:]...)...))
		}
	}
	if commands == 0 {
		c.t.Errorf("the notes name no command that checks:\n%s", notes)
	}
}

// checkLeftAlone checks a kind after the removal of the chart. As the chart's notes say, users can still use objects
// in the stored version, but not in another version, because the conversion webhook is missing.
func (c *cluster) checkLeftAlone(k kind.Row) {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "examples/kinds", k.Name(), "testdata/manifests", k.Kind.Version+".yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	left := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(raw), "NAME", "left")), &left.Object); err != nil {
		c.t.Fatal(err)
	}
	left.SetNamespace(env.Namespace(c.t))
	// The API server still calls deleted webhooks for a moment.
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error { return c.Create(ctx, left) })
	c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), left) })
	if !k.Converted {
		return
	}
	old := left.DeepCopy()
	old.SetAPIVersion(k.Kind.Group + "/v1alpha1")
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(old), old); err == nil || !strings.Contains(err.Error(), "conversion webhook") {
		c.t.Errorf("v1alpha1 without a manager: %v, want an error of the conversion webhook", err)
	}
}

// authority returns a CA bundle that the API server accepts: the API server's own.
func (c *cluster) authority() string {
	c.t.Helper()
	var maps corev1.ConfigMap
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: "default", Name: "kube-root-ca.crt"}, &maps); err != nil {
		c.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString([]byte(maps.Data["ca.crt"]))
}
