package cli_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// alone returns the default namespace of a control plane that no other test uses, for tests with cluster-scoped
// objects.
func alone(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: filepath.Join(t.TempDir(), "cp"), Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return &cluster{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, namespace: "default"}
}

// older returns a control plane that serves all kinds in v1alpha1 alone, as releases of OpenKruise before v1beta1 do.
func older(t *testing.T) *cluster {
	t.Helper()
	c := alone(t)
	ctx := t.Context()
	var definitions unstructured.UnstructuredList
	definitions.SetAPIVersion("apiextensions.k8s.io/v1")
	definitions.SetKind("CustomResourceDefinitionList")
	if err := c.List(ctx, &definitions); err != nil || len(definitions.Items) == 0 {
		t.Fatalf("%d kinds are installed, %v", len(definitions.Items), err)
	}
	for i := range definitions.Items {
		c.serveOlder(&definitions.Items[i])
	}
	return c
}

// serveOlder makes v1alpha1 the only version of a kind. A kind without v1alpha1 is removed. serveOlder creates the
// CRD again, because the API server does not allow the removal of a stored version from an existing CRD.
func (c *cluster) serveOlder(crd *unstructured.Unstructured) {
	c.t.Helper()
	if err := c.Delete(c.t.Context(), crd); err != nil {
		c.t.Fatal(err)
	}
	next := &unstructured.Unstructured{Object: map[string]any{"spec": crd.Object["spec"]}}
	next.SetAPIVersion(crd.GetAPIVersion())
	next.SetKind(crd.GetKind())
	next.SetName(crd.GetName())
	next.SetAnnotations(crd.GetAnnotations())
	spec, _ := next.Object["spec"].(fields.Object)
	delete(spec, "conversion")
	for _, version := range fields.List(spec, "versions") {
		if fields.String(version, "name") == "v1alpha1" {
			version["storage"], version["served"] = true, true
			spec["versions"] = []any{version}
			controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error { return c.Create(ctx, next.DeepCopy()) })
			return
		}
	}
}

// TestOlderVersion: the commands work if only v1alpha1 is served, and use the field paths of that version.
func TestOlderVersion(t *testing.T) {
	c := older(t)
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		u := c.decode(`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: {app: web}},
template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: "example.test/app:v1"}]}}, updateStrategy: {type: InPlaceIfPossible, partition: 1}}}`)
		return client.IgnoreAlreadyExists(c.Create(ctx, u))
	})
	text := func(path ...string) string {
		return c.want("get", "cloneset/web", "-o", "jsonpath={."+strings.Join(path, ".")+"}")
	}
	c.want("rollout", "pause", "cloneset/web")
	if got := text("spec", "updateStrategy", "paused"); got != "true" {
		t.Errorf("KC-15 v1alpha1: paused is %q", got)
	}
	c.refused(3, "timed out", "rollout", "status", "cloneset/web", "--timeout=1s") // no manager runs
	c.want("rollout", "resume", "cloneset/web")
	if got := text("spec", "updateStrategy", "paused"); got != "" && got != "false" {
		t.Errorf("KC-15 v1alpha1: paused is %q", got)
	}
	c.want("set", "image", "cloneset/web", "app=example.test/app:v2")
	if got := text("spec", "template", "spec", "containers[0]", "image"); got != "example.test/app:v2" {
		t.Errorf("KC-18 v1alpha1: image is %q", got)
	}
	c.want("set", "env", "cloneset/web", "COLOUR=red")
	c.want("rollout", "restart", "cloneset/web")
	if out := c.want("describe", "cloneset/web"); !strings.Contains(out, "web") {
		t.Errorf("describe prints\n%s", out)
	}
	if out := c.want("get", "all"); !strings.Contains(out, "clonesets.apps.kruise.io:") {
		t.Errorf("get all prints\n%s", out)
	}
	c.eventually("SpecUnobserved", "why", "cloneset/web")
	if a := c.do("rollout", "history", "cloneset/web"); a.code != 0 && !strings.Contains(a.out+a.errors, "no rollout history") && !strings.Contains(a.out+a.errors, "No rollout history") {
		t.Errorf("KC-2 v1alpha1: %+v", a)
	}
	if a := c.do("doctor"); a.code != 1 || !strings.Contains(a.out, "v1alpha1") && !strings.Contains(a.out, "Webhooks") {
		t.Errorf("doctor: %+v", a)
	}
}
