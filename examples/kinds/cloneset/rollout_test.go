package cloneset_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
)

// identity contains the fields of a Pod that an in-place update must not change.
type identity struct{ Name, Node, IP string }

func identities(pods []corev1.Pod) map[types.UID]identity {
	out := map[types.UID]identity{}
	for i := range pods {
		out[pods[i].UID] = identity{pods[i].Name, pods[i].Spec.NodeName, pods[i].Status.PodIP}
	}
	return out
}

// TestRollout100InPlace updates 100 Pods to a new image, and checks the limits at every event.
func TestRollout100InPlace(t *testing.T) {
	const replicas, maxUnavailable = 100, 10
	c := start(t, manager.Options{})
	cs := c.cloneSet("web", replicas, func(cs *v1beta1.CloneSet) {
		cs.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(maxUnavailable))
	})
	c.create(cs)
	before := identities(c.pods("web"))

	var worst atomic.Int64
	controllertest.Watch(t, c, c.namespace, func(pods map[types.UID]*corev1.Pod) {
		if len(pods) < replicas {
			return // the list of existing Pods has not been replayed yet
		}
		unavailable := int64(0)
		for _, pod := range pods {
			if !podstate.IsReady(pod) {
				unavailable++
			}
		}
		worst.Store(max(worst.Load(), unavailable))
	})
	offset := controllertest.End(t, c.cp.AuditLog())
	c.change("web", setImage(0, "example.test/app:v2"))
	c.until("web", settled)

	pods := c.pods("web")
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		t.Errorf("UID, name, node or IP of a Pod changed (-before +after):\n%s", diff)
	}
	for i := range pods {
		app, log := pods[i].Status.ContainerStatuses[0], pods[i].Status.ContainerStatuses[1]
		if app.Image != "example.test/app:v2" || app.RestartCount != 1 || log.RestartCount != 0 {
			t.Errorf("Pod %s: app runs %s after %d restarts, log has %d", pods[i].Name, app.Image, app.RestartCount, log.RestartCount)
		}
	}
	if worst.Load() > maxUnavailable || worst.Load() == 0 {
		t.Errorf("%d Pods were unavailable at once, want 1 to %d", worst.Load(), maxUnavailable)
	}
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
	tally := controllertest.Tally(requests, c.namespace)
	t.Logf("requests of 100 updates: %v; at most %d unavailable", tally, worst.Load())
	writes := 0
	for key, n := range tally {
		if strings.Contains(key, " pods") {
			writes += n
		}
		if strings.HasPrefix(key, "get pods") || strings.HasPrefix(key, "list pods") {
			t.Errorf("%d reads: %s", n, key)
		}
	}
	if writes > 3*replicas+2 { // at most two conflicts for a hundred Pods
		t.Errorf("%d writes for %d Pods, want 3 each: %v", writes, replicas, tally)
	}
}

// TestScaleAndRecreateWrites counts writes: two for a new Pod, and three for a recreated Pod.
func TestScaleAndRecreateWrites(t *testing.T) {
	const replicas = 20
	c := start(t, manager.Options{})
	offset := controllertest.End(t, c.cp.AuditLog())
	c.create(c.cloneSet("web", replicas))
	requests, offset := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
	created := podWrites(requests, c.namespace)
	if diff := cmp.Diff(map[string]int{"create pods": replicas, "patch pods/status": replicas}, created); diff != "" {
		t.Errorf("writes of creating %d Pods (-want +got):\n%s", replicas, diff)
	}
	c.change("web", func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	})
	c.until("web", settled)
	requests, _ = controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
	want := map[string]int{"delete pods": replicas, "create pods": replicas, "patch pods/status": replicas}
	if diff := cmp.Diff(want, podWrites(requests, c.namespace)); diff != "" {
		t.Errorf("writes of recreating %d Pods (-want +got):\n%s", replicas, diff)
	}
}

// podWrites drops reads, such as a cache's first list.
func podWrites(requests []controllertest.Request, namespace string) map[string]int {
	requests = slices.DeleteFunc(slices.Clone(requests), func(r controllertest.Request) bool { return !r.IsWrite() })
	tally := controllertest.Tally(requests, namespace)
	for key := range tally {
		if !strings.Contains(key, " pods") {
			delete(tally, key)
		}
	}
	return tally
}

// TestNothingToDo: a settled CloneSet causes no request at all, even when the controller starts again.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	c := idle(t)
	stop := c.run(manager.Options{})
	c.create(c.cloneSet("web", 5))
	stop()
	offset := controllertest.End(t, c.cp.AuditLog())
	c.run(manager.Options{})
	// When a second CloneSet has settled, the first CloneSet has been reconciled, too.
	c.create(c.cloneSet("other", 1))
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
	for _, r := range requests {
		if r.Namespace == c.namespace && (r.Name == "web" || strings.HasPrefix(r.Name, "web-")) {
			t.Errorf("%s %s %s for a settled CloneSet", r.Verb, r.Resource, r.Name)
		}
	}
}

// TestOneNamespace: a controller that is restricted to a namespace works there as usual, also with Nodes, and does
// not touch other namespaces.
func TestOneNamespace(t *testing.T) {
	t.Parallel()
	c := idle(t)
	elsewhere := c.cloneSet("web", 1)
	elsewhere.Namespace = env.Namespace(t)
	if err := c.Create(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	c.run(manager.Options{})
	c.create(c.cloneSet("web", 4, func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: cs.Spec.Selector,
		}}
	}))
	c.change("web", setImage(0, "example.test/app:v2"))
	c.until("web", settled)
	c.change("web", setReplicas(1)) // the choice of Pods depends on the zones of their Nodes
	c.until("web", settled)
	c.untilPods("web", count(1))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(elsewhere), elsewhere); err != nil {
		t.Fatal(err)
	}
	if elsewhere.Status.ObservedGeneration != 0 {
		t.Errorf("a CloneSet of another namespace was touched: %+v", elsewhere.Status)
	}
}
