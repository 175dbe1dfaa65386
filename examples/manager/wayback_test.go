package manager_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// travellers are objects of kinds that OpenKruise 1.9.0 has only in v1alpha1. Some of their fields have another path
// in v1alpha1 than in v1beta1.
const travellers = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  scaleStrategy: {maxUnavailable: 3}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: "example.test/app:v1"}]}
---
apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: web, namespace: default}
spec: {selector: {matchLabels: {app: web}}, maxUnavailable: 1, protectOperations: [DELETE, EVICT]}
---
apiVersion: apps.kruise.io/v1beta1
kind: PersistentPodState
metadata: {name: db, namespace: default}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology: {keys: [kubernetes.io/hostname]}
---
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: zones, namespace: default}
spec:
  replicas: 0
  selector: {matchLabels: {app: zones}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: zones}}
      spec:
        selector: {matchLabels: {app: zones}}
        scaleStrategy: {enablePVCReuse: true}
        updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}}}
        template:
          metadata: {labels: {app: zones}}
          spec: {containers: [{name: app, image: "example.test/app:v1"}]}
  topology: {scheduleStrategy: {type: Fixed}}
---
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: spread, namespace: default}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: web}
  subsets: [{name: a, maxReplicas: 1, requiredNodeSelector: {matchExpressions: [{key: zone, operator: Exists}]}}, {name: b}]
`

func (c *cluster) travellers() (out []*unstructured.Unstructured) {
	c.t.Helper()
	for text := range strings.SplitSeq(travellers, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			c.t.Fatal(err)
		}
		out = append(out, object)
	}
	return out
}

// specs reads the specs of the objects in travellers, in a version.
func (c *cluster) specs(version string) map[string]any {
	c.t.Helper()
	specs := map[string]any{}
	for _, object := range c.travellers() {
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: object.GroupVersionKind().Group, Version: version, Kind: object.GetKind()})
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			return c.Get(ctx, client.ObjectKeyFromObject(object), object)
		})
		specs[object.GetKind()] = object.Object["spec"]
	}
	return specs
}

// follow runs a command of the README and returns the output.
func (c *cluster) follow(line string) string {
	c.t.Helper()
	words := strings.Fields(strings.NewReplacer("$KUBECONFIG", c.cp.Kubeconfig(), "OPENKRUISE-CRDS", "testdata/openkruise-1.9.0-crds").Replace(line))
	path := c.binary
	if words[0] == "kubectl" {
		var err error
		if path, err = controlplane.Binary(c.t.Context(), "kubectl", controlplane.Options{Progress: os.Stderr}); err != nil {
			c.t.Fatal(err)
		}
	} else if words[0] != "kruise-manager" {
		c.t.Fatalf("%s: unknown command", line)
	}
	out, err := exec.CommandContext(c.t.Context(), path, words[1:]...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// stored returns the stored versions of a CRD.
func (c *cluster) stored(name string) []string {
	c.t.Helper()
	crd := c.crd()
	if err := c.Get(c.t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
		c.t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	return versions
}

// TestWayBack: the commands of the README for the return to OpenKruise store all objects in versions that OpenKruise
// 1.9.0 has, and the API server then accepts OpenKruise's CRDs. Afterwards this manager can be started again.
func TestWayBack(t *testing.T) {
	c := newCluster(t)
	c.install()
	c.run().untilReady()
	for _, object := range c.travellers() {
		controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error { return c.Create(ctx, object.DeepCopy()) })
	}
	beta, alpha := c.specs("v1beta1"), c.specs("v1alpha1")
	crds, err := filepath.Glob("testdata/openkruise-1.9.0-crds/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatal(crds, err)
	}
	names := make([]string, len(crds))
	for i, file := range crds {
		group, resource, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
		names[i] = resource + "." + group
	}
	back := controllertest.Commands(t, "../README.md", "The way back to OpenKruise 1.9.0")
	if len(back) != 3 {
		t.Fatal(back)
	}
	if out := c.follow(back[0]); !strings.Contains(out, "clonesets.apps.kruise.io: 1 objects would be written") || !slices.Equal(c.stored("clonesets.apps.kruise.io"), []string{"v1beta1"}) {
		t.Errorf("a dry run: %s", out)
	}
	t.Log(c.follow(back[1]))
	for _, name := range slices.Concat(names, []string{"statefulsets.apps.kruise.io"}) {
		want := []string{"v1alpha1"}
		if name == "statefulsets.apps.kruise.io" {
			want = []string{"v1beta1"} // OpenKruise 1.9.0 has the version
		}
		if diff := cmp.Diff(want, c.stored(name)); diff != "" {
			t.Errorf("stored versions of %s (-want +got):\n%s", name, diff)
		}
	}
	if out := c.follow(back[1]); !strings.Contains(out, "clonesets.apps.kruise.io: every object is stored in v1alpha1") {
		t.Errorf("once more: %s", out)
	}
	t.Log(c.follow(back[2]))
	if diff := cmp.Diff(alpha, c.specs("v1alpha1")); diff != "" {
		t.Errorf("by OpenKruise's CRDs (-before +after):\n%s", diff)
	}
	if err := config.InstallCRDs(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error { // the manager puts its address into the CRD again
		return c.Get(ctx, client.ObjectKeyFromObject(c.travellers()[0]), c.travellers()[0])
	})
	t.Log(c.follow(controllertest.Commands(t, "../README.md", "Forward again")[0]))
	for _, name := range names {
		if diff := cmp.Diff([]string{"v1beta1"}, c.stored(name)); diff != "" {
			t.Errorf("stored versions of %s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(beta, c.specs("v1beta1")); diff != "" {
		t.Errorf("there and back (-before +after):\n%s", diff)
	}
}
