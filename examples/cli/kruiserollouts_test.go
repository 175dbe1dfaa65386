package cli_test

import (
	"context"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// installRollouts installs the CRD of Rollouts until the test ends.
func (c *cluster) installRollouts() {
	c.t.Helper()
	raw, err := os.ReadFile("testdata/rollouts.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &crd.Object); err != nil {
		c.t.Fatal(err)
	}
	if err := c.Create(c.t.Context(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(c.t.Context()), crd); err != nil {
			c.t.Error(err)
		}
	})
}

func TestKruiseRollouts(t *testing.T) {
	c := start(t)
	c.installRollouts()
	c.apply(strings.NewReplacer("apps.kruise.io/v1beta1", "apps/v1").Replace(workload("Deployment", "  replicas: 1")))
	c.want("rollout", "status", "deployment/web", "--timeout=1m")
	c.want("set", "image", "deployment/web", "app=example.test/app:v2")
	c.want("rollout", "status", "deployment/web", "--timeout=1m")
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error { // the CRD is served a moment later
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(`{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: release}, spec: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web},
strategy: {canary: {steps: [{replicas: 50%}, {replicas: 100%}, {replicas: 100%, traffic: 5%}]}}}}`), &u.Object); err != nil {
			return err
		}
		u.SetNamespace(c.namespace)
		return c.Create(ctx, u)
	})
	release := c.object("rollouts.kruise.io/v1beta1", "Rollout", "release")
	release.Object["status"] = fields.Object{"phase": "Progressing", "canaryStatus": fields.Object{"currentStepIndex": int64(3), "currentStepState": "StepPaused"}}
	if err := c.Status().Update(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	state := func(path string) fields.Object {
		value, _ := fields.At(c.object("rollouts.kruise.io/v1beta1", "Rollout", "release").Object, path)
		found, _ := value.(fields.Object)
		return found
	}
	if out := c.want("describe", "rollout", "release", "--all"); !strings.Contains(out, "Step:              3/3") || !strings.Contains(out, "web-") {
		t.Errorf("KC-33 describe prints\n%s", out)
	}
	if out := c.want("describe", "deployment", "web"); !strings.Contains(out, "RollingUpdateStrategy") {
		t.Errorf("kubectl's describe prints\n%s", out)
	}
	if out := c.want("rollout", "approve", "rollout/release"); !strings.Contains(out, "approved") || state("status.canaryStatus")["currentStepState"] != "StepReady" {
		t.Errorf("KC-17 approve prints %q: %v", out, state("status"))
	}
	c.refused(1, "does not wait for approval", "rollout", "approve", "rollout/release")
	c.want("rollout", "undo", "rollout/release", "--fast")
	if got := state("status.canaryStatus")["nextStepIndex"]; got != int64(2) {
		t.Errorf("KC-14 the next step is %v", got)
	}
	c.want("rollout", "pause", "rollout/release")
	if state("spec.strategy")["paused"] != true {
		t.Errorf("KC-15 the strategy is %v", state("spec.strategy"))
	}
	if out := c.want("rollout", "undo", "rollout/release", "deployment/web"); strings.Count(out, "rolled back") != 1 {
		t.Errorf("KC-13 undo prints %q", out)
	}
	if got := fields.List(c.object("apps/v1", "Deployment", "web").Object, "spec.template.spec.containers"); fields.String(got[0], "image") != "example.test/app:v1" {
		t.Errorf("KC-13 the containers are %v", got)
	}
}

func TestExec(t *testing.T) {
	c := start(t)
	c.apply(workload("CloneSet", "  replicas: 0"))
	c.refused(1, "pod, type/name or --filename must be specified", "exec")
	c.refused(1, "timed out", "exec", "cloneset/web", "--pod-running-timeout=1s", "--", "true")
	c.apply(`apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {kruise.io/sidecarset-working-hotupgrade-container: '{"envoy":"envoy-2"}'}}
spec: {containers: [{name: app, image: "a:1"}, {name: envoy-1, image: "e:1"}, {name: envoy-2, image: "e:1"}]}`)
	a := c.do("exec", "web", "-S", "envoy", "--", "true") // a simulated Pod cannot run commands
	if !strings.Contains(a.errors, "Container envoy-2 of Pod web") {
		t.Errorf("KC-30 exec prints %q", a.errors)
	}
}
