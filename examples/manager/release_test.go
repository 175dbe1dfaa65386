package manager_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// releaseGates are the feature gates of the cluster from which the objects come.
const releaseGates = "--feature-gates=ResourceDistributionGate=true,StatefulSetStartOrdinal=true,SidecarTerminator=true," +
	"InPlaceWorkloadVerticalScaling=true,ResourcesDeletionProtection=true"

// witnesses are workloads that the test creates last. When the Pods of the witnesses are ready, the controllers have
// also reconciled the restored workloads.
const witnesses = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: witness, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: witness}}
  template:
    metadata: {labels: {app: witness}}
    spec: {containers: [{name: app, image: "example.test/app:v1"}]}
---
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: witness, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: witness-sts}}
  template:
    metadata: {labels: {app: witness-sts}}
    spec: {containers: [{name: app, image: "example.test/app:v1"}]}
---
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: witness, namespace: default}
spec:
  selector: {matchLabels: {app: witness-ds}}
  template:
    metadata: {labels: {app: witness-ds}}
    spec: {containers: [{name: app, image: "example.test/app:v1"}]}
`

// release restores the objects of a cluster with OpenKruise 1.9.0 on a new control plane: first the CRDs that store
// v1alpha1, and the objects, then the CRDs and webhook configurations of this repository.
func release(t *testing.T, state string) *cluster {
	t.Helper()
	c := newClusterOf(t, 10) // the Nodes sim-01 to sim-10 of the objects
	for _, dir := range []string{"testdata/openkruise-1.9.0-crds", "testdata/openkruise-1.9.0/crds"} {
		crds, err := filepath.Glob(dir + "/*.yaml")
		if err != nil || len(crds) == 0 {
			t.Fatal(crds, err)
		}
		controllertest.RestoreCluster(t, c, nil, crds...)
	}
	for _, name := range []string{"kruise-system", "kruise-daemon-config"} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := filepath.Glob("testdata/openkruise-1.9.0/" + state + "/*.yaml")
	if err != nil || len(objects) != 9 {
		t.Fatal(objects, err)
	}
	// With the original grace periods, each Pod of a rollout would be out of service for half a minute.
	shorten := func(raw []byte) []byte {
		return regexp.MustCompile(`( gracePeriodSeconds:) \d+`).ReplaceAll(raw, []byte("$1 2"))
	}
	controllertest.RestoreCluster(t, c, shorten, append([]string{"testdata/openkruise-1.9.0/base.yaml"}, objects...)...)
	c.install()
	return c
}

// workload reads a workload.
func (c *cluster) workload(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: kind})
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
	return u, err
}

// until waits until the status of a workload has the counts.
func (c *cluster) until(kind, namespace, name string, counts map[string]int64) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) error {
		u, err := c.workload(ctx, kind, namespace, name)
		if err != nil {
			return err
		}
		have := map[string]int64{}
		for field := range counts {
			have[field], _, _ = unstructured.NestedInt64(u.Object, "status", field)
		}
		if diff := cmp.Diff(counts, have); diff != "" {
			return fmt.Errorf("%s %s (-want +got):\n%s", kind, name, diff)
		}
		if observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); observed != u.GetGeneration() {
			return fmt.Errorf("%s %s: generation %d of %d", kind, name, observed, u.GetGeneration())
		}
		return nil
	})
}

// witness creates the witnesses, and waits until their Pods are ready.
func (c *cluster) witness() {
	c.t.Helper()
	for text := range strings.SplitSeq(witnesses, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			c.t.Fatal(err)
		}
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error { return c.Create(ctx, object.DeepCopy()) })
	}
	c.until("CloneSet", "default", "witness", map[string]int64{"updatedReadyReplicas": 2})
	c.until("StatefulSet", "default", "witness", map[string]int64{"readyReplicas": 2})
	c.until("DaemonSet", "default", "witness", map[string]int64{"numberReady": 10})
}

// writtenIn lists the writes of the manager, since an offset in the audit log, to Pods, claims, revisions and copies
// outside the namespace of the witnesses.
func (c *cluster) writtenIn(offset int64) (out []string) {
	c.t.Helper()
	kept := []string{"pods", "persistentvolumeclaims", "controllerrevisions", "configmaps", "secrets"}
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), offset, "kruise-manager/")
	for _, r := range requests {
		resource, _, _ := strings.Cut(r.Resource, "/")
		if r.IsWrite() && slices.Contains(kept, resource) && r.Name != "kruise-webhook-certs" && !strings.HasPrefix(r.Name, "witness") {
			out = append(out, fmt.Sprintf("%s %s/%s", r, r.Namespace, r.Name))
		}
	}
	return out
}

// places returns the Pods of an app by UID, each with its name and Node, which an update in place does not change.
func (c *cluster) places(app string) map[types.UID]string {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.List(c.t.Context(), &pods, client.InNamespace("fixtures"), client.MatchingLabels{"app": app}); err != nil {
		c.t.Fatal(err)
	}
	out := map[types.UID]string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		out[pod.UID] = pod.Name + " on " + pod.Spec.NodeName
	}
	return out
}

// TestReleaseSettled: if OpenKruise 1.9.0 has completed all work on the objects, the manager writes no Pod, claim,
// revision or copy.
func TestReleaseSettled(t *testing.T) {
	c := release(t, "settled")
	offset := controllertest.End(t, c.cp.AuditLog())
	c.run(releaseGates).untilReady()
	c.witness() // by then any wrong write would have happened
	if diff := cmp.Diff([]string(nil), c.writtenIn(offset)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	c.until("CloneSet", "fixtures", "web", map[string]int64{"readyReplicas": 5, "updatedReadyReplicas": 5})
}

// TestReleaseMidway: rollouts that OpenKruise 1.9.0 has begun are completed, without a node agent; updates that have
// begun in place continue in place. The test leaves out Pods to which several clients have made in-place updates one
// after the other: only a minute without a restart would prove that such an update has ended.
func TestReleaseMidway(t *testing.T) {
	c := release(t, "midway")
	inPlace := map[string]map[types.UID]string{}
	for _, app := range []string{"web", "part", "db", "db-old", "agent", "agent-old"} {
		if inPlace[app] = c.places(app); len(inPlace[app]) == 0 {
			t.Fatalf("no Pod has label app=%s", app)
		}
	}
	c.run(releaseGates).untilReady()
	for _, end := range []struct {
		kind, name string
		counts     map[string]int64
	}{
		{"CloneSet", "web", map[string]int64{"replicas": 5, "updatedReadyReplicas": 5}},
		{"CloneSet", "part", map[string]int64{"replicas": 6, "readyReplicas": 6, "updatedReadyReplicas": 3}},
		{"CloneSet", "recreate", map[string]int64{"replicas": 4, "updatedReadyReplicas": 4}},
		{"StatefulSet", "db", map[string]int64{"readyReplicas": 4, "updatedReadyReplicas": 2}},
		{"StatefulSet", "db-old", map[string]int64{"readyReplicas": 3, "updatedReadyReplicas": 3}},
		{"StatefulSet", "serial", map[string]int64{"readyReplicas": 3, "updatedReadyReplicas": 3}},
		{"StatefulSet", "sticky", map[string]int64{"readyReplicas": 3, "updatedReadyReplicas": 3}},
		{"StatefulSet", "start5", map[string]int64{"readyReplicas": 6, "updatedReadyReplicas": 6}},
		{"DaemonSet", "agent", map[string]int64{"numberReady": 10, "updatedNumberScheduled": 7}},
		{"DaemonSet", "agent-old", map[string]int64{"numberReady": 10, "updatedNumberScheduled": 10}},
	} {
		c.until(end.kind, "fixtures", end.name, end.counts)
	}
	for app, before := range inPlace {
		if diff := cmp.Diff(before, c.places(app)); diff != "" {
			t.Errorf("%s was not updated in place (-before +after):\n%s", app, diff)
		}
	}
}
