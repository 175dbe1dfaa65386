package preview_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/kinds/cloneset"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const web = `apiVersion: apps.kruise.io/%s
kind: CloneSet
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  updateStrategy: %s
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: app, image: "%s", env: [{name: MODE, value: "%s"}]}
`

const rolling = "{type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1}}"

// shop is a namespace with a CloneSet of three Pods.
type shop struct {
	*commands
	t  *testing.T
	cp *controlplane.ControlPlane
	c  client.WithWatch
	ns string
}

func newShop(t *testing.T, webhooks bool) *shop {
	t.Helper()
	cp := env.Start(t)
	s := &shop{commands: &commands{}, t: t, cp: cp, c: controllertest.Client(t, cp), ns: env.Namespace(t)}
	if webhooks {
		controllertest.Serve(t, cp, s.c, manager.Options{})
	} else {
		controllertest.Manager(t, cp, manager.Options{Namespace: s.ns, Kinds: []kind.Row{cloneset.Row()}, Loops: []kinds.Loop{}})
	}
	s.want(0, "created", "create", "-f", s.file(fmt.Sprintf(web, "v1beta1", 3, rolling, "example.test/app:v1", "1")))
	s.want(0, "successfully rolled out", "rollout", "status", "cloneset/web", "--timeout=2m")
	return s
}

func (s *shop) file(manifest string) string {
	file := filepath.Join(s.t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// want runs a command line that must end with a code and print a text.
func (s *shop) want(code int, text string, args ...string) string {
	s.t.Helper()
	out, got := s.run(s.t.Context(), append([]string{"--kubeconfig", s.cp.Kubeconfig(), "-n", s.ns}, args...)...)
	if got != code || !strings.Contains(out, text) {
		s.t.Errorf("%s: exit code %d, want %d with %q\n%s", strings.Join(args, " "), got, code, text, out)
	}
	for line := range strings.Lines(out) {
		if len([]rune(line)) > 80 && code != 1 && slices.Contains(args, "preview") && !slices.Contains(args, "json") {
			s.t.Errorf("%s: a line of more than 80 columns: %s", strings.Join(args, " "), line)
		}
	}
	return out
}

func TestCommands(t *testing.T) {
	s := newShop(t, true)
	image := s.file(fmt.Sprintf(web, "v1beta1", 3, rolling, "example.test/app:v2", "1"))
	variable := s.file(fmt.Sprintf(web, "v1beta1", 3, rolling, "example.test/app:v1", "2"))
	paused := s.file(fmt.Sprintf(web, "v1beta1", 3, strings.Replace(rolling, "maxUnavailable", "paused: true, maxUnavailable", 1), "example.test/app:v2", "1"))
	t.Log("\n" + s.want(0, "3 updated in place", "preview", "-f", image))
	t.Log("\n" + s.want(0, "spec.containers[app].env[MODE].value: 1 -> 2", "preview", "-f", variable))
	s.want(0, "stops for: Paused", "preview", "-f", paused)
	s.want(0, "3 kept as they are", "preview", "-f", s.file(fmt.Sprintf(web, "v1beta1", 3, rolling, "example.test/app:v1", "1")))
	s.want(0, "3 updated in place", "preview", "-f", s.file(fmt.Sprintf(web, "v1alpha1", 3, "{type: InPlaceIfPossible, maxUnavailable: 1}", "example.test/app:v2", "1")))
	s.want(0, "2 deleted", "preview", "-f", s.file(fmt.Sprintf(web, "v1beta1", 1, rolling, "example.test/app:v1", "1")))
	s.want(0, "4 created", "preview", "-f", s.file(strings.Replace(fmt.Sprintf(web, "v1beta1", 4, rolling, "example.test/app:v1", "1"), "name: web", "name: new", 1)))
	s.want(0, "pod/web-", "preview", "-f", image, "-o", "name")
	s.want(0, "3 updated in place", "set", "image", "cloneset/web", "app=example.test/app:v3", "--preview")
	s.want(0, "recreated for: ImmutableField", "set", "env", "cloneset/web", "MODE=3", "--preview")
	s.want(0, "image updated", "set", "image", "cloneset/web", "app=example.test/app:v1.1", "--dry-run=client")

	s.want(3, "recreated", "preview", "-f", variable, "--fail-on", "recreate")
	s.want(0, "updated in place", "preview", "-f", image, "--fail-on", "recreate,stop,delete,claims")
	s.want(3, "stops for", "preview", "-f", paused, "--fail-on", "stop")
	s.want(1, `--fail-on: "x" is not one of`, "preview", "-f", image, "--fail-on", "x")
	s.want(1, "a manifest is required", "preview")
	s.want(1, `"xml" is not json`, "preview", "-f", image, "-o", "xml")
	s.want(1, "--feature-gates", "preview", "-f", image, "--feature-gates", "Nothing=true")
	s.want(1, "not a kind", "preview", "-f", s.file("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"))
	object := &unstructured.Unstructured{}
	manifest := strings.Replace(fmt.Sprintf(web, "v1beta1", 0, rolling, "example.test/app:v1", "1"), "name: web", "name: applied", 1)
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetNamespace(s.ns)
	if err := s.c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	s.want(0, "applied with --server-side", "preview", "-f", s.file(manifest))
	several := fmt.Sprintf(web, "v1beta1", 3, rolling, "example.test/app:v2", "1") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
	s.want(0, "not previewed: ConfigMap x", "preview", "-f", s.file(several))
	s.want(2, "would be refused: CloneSet.apps.kruise.io \"web\"", "preview", "-f", s.file(fmt.Sprintf(web, "v1beta1", -1, rolling, "example.test/app:v1", "1")))

	report := &forecast.Report{}
	if err := json.Unmarshal([]byte(s.want(0, "", "preview", "-f", variable, "-o", "json")), report); err != nil || report.Count(forecast.Recreate) != 3 || len(report.Batches) != 3 {
		t.Errorf("%v: %d Pods recreated in %d batches, want 3 in 3", err, report.Count(forecast.Recreate), len(report.Batches))
	}
}

// TestReadOnly: a user who has only read permissions gets a preview. The output names the objects that could not be
// read.
func TestReadOnly(t *testing.T) {
	s := newShop(t, false)
	name := "reader-" + s.ns
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, Verbs: []string{"list"}},
		{APIGroups: []string{"", "apps", "apps.kruise.io"}, Resources: []string{"pods", "controllerrevisions", "clonesets", "statefulsets", "daemonsets", "namespaces", "replicasets", "deployments"}, Verbs: []string{"get", "list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := s.c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	image := s.file(fmt.Sprintf(web, "v1beta1", 3, rolling, "example.test/app:v2", "1"))
	controlplanetest.Eventually(t, limit, func(context.Context) error {
		out, code := s.run(t.Context(), "--kubeconfig", s.cp.Kubeconfig(), "-n", s.ns, "--as", name, "preview", "-f", image)
		if code != 0 || !strings.Contains(out, "3 updated in place") {
			return fmt.Errorf("exit code %d\n%s", code, out)
		}
		if _, code := s.run(t.Context(), "--kubeconfig", s.cp.Kubeconfig(), "-n", s.ns, "--as", name, "preview", "-f", image, "--fail-on", "recreate,stop"); code != 4 {
			t.Errorf("--fail-on stop ends with code %d, want 4: what may stop the rollout was not read", code)
		}
		for _, want := range []string{"not read: Nodes: ", "not read: PodUnavailableBudgets: ", "not read: SidecarSets: "} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		return nil
	})
	pods := &corev1.PodList{}
	if err := s.c.List(t.Context(), pods, client.InNamespace(s.ns)); err != nil || len(pods.Items) != 3 || pods.Items[0].Spec.Containers[0].Image != "example.test/app:v1" {
		t.Errorf("the preview has changed something: %v %v", err, pods.Items)
	}
	s.want(1, "", "--as", "nobody", "preview", "-f", image)
}
