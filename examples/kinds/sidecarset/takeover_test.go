package sidecarset_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// TestTakeOver creates the objects that OpenKruise 1.9 has left (with cold, hot and native sidecars, and a launch
// order), starts the controller, and checks that no Pod or revision is written. Then the next upgrade is made in
// place.
func TestTakeOver(t *testing.T) {
	c := idle(t)
	for _, name := range []string{"sim-04", "sim-08"} {
		if err := c.Create(t.Context(), controlplane.NewNode(name)); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Restore(t, c, c.namespace, "testdata/openkruise-1.9/sidecars.yaml")
	mesh, native := &v1beta1.SidecarSet{}, &v1beta1.SidecarSet{}
	mesh.Name, native.Name = "mesh", "native"
	t.Cleanup(func() {
		for _, set := range []client.Object{mesh, native} {
			_ = c.Delete(t.Context(), set)
		}
	})
	before := c.list()
	begin := controllertest.End(t, c.cp.AuditLog())
	c.run()
	witness := c.create(c.set("witness", container("w", "w:v1"), func(s *v1beta1.SidecarSetSpec) { // by then any wrong write would have happened
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "witness"}}
	}))
	c.counts(mesh, 2, 2, 2, 2)
	c.counts(native, 2, 2, 2, 2)
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), begin, "kruise-manager")
	for _, r := range requests {
		ours := strings.HasPrefix(r.Name, witness.Name)
		if r.IsWrite() && !ours && (r.Namespace == c.namespace && r.Resource != "events") {
			t.Errorf("%s %s %s (%d)", r.Verb, r.Resource, r.Name, r.Code)
		}
	}
	if diff := cmp.Diff(specs(before), specs(c.list())); diff != "" {
		t.Errorf("Pods changed by the switch (-before +after):\n%s", diff)
	}

	c.change(mesh, func(s *v1beta1.SidecarSetSpec) {
		s.Containers[0].Image, s.Containers[1].Image = "example.test/proxy:v3", "example.test/hot:v3"
	})
	c.counts(mesh, 2, 2, 2, 2)
	c.change(native, func(s *v1beta1.SidecarSetSpec) {
		s.UpdateStrategy.Type, s.InitContainers[0].Image = "RollingUpdate", "example.test/nproxy:v2"
	})
	c.counts(native, 2, 2, 2, 2)
	for _, pod := range c.list() {
		got := map[string]string{}
		for _, name := range []string{"hot-1", "hot-2", "proxy", "app", "nproxy"} {
			got[name] = strings.TrimPrefix(podstate.Container(&pod, name).Image, "example.test/")
		}
		got["works"] = pod.Annotations[apps.AnnotationSidecarSetWorking]
		want := map[string]string{
			"hot-1": "hot:v3", "hot-2": "empty:v1", "proxy": "proxy:v3", "app": "app:v1", "nproxy": "nproxy:v2", "works": `{"hot":"hot-1"}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Pod %s (-want +got):\n%s", pod.Name, diff)
		}
		if app := podstate.ContainerStatus(&pod, "app"); app.RestartCount != 0 {
			t.Errorf("the application container of %s restarted %d times", pod.Name, app.RestartCount)
		}
	}
}

// list returns the Pods of the test's namespace.
func (c *cluster) list() []corev1.Pod {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.List(c.t.Context(), &pods, client.InNamespace(c.namespace)); err != nil {
		c.t.Fatal(err)
	}
	return pods.Items
}

// seen contains the fields of a Pod that the test compares.
type seen struct {
	Spec                corev1.PodSpec
	Labels, Annotations map[string]string
}

func specs(pods []corev1.Pod) map[types.UID]seen {
	out := map[types.UID]seen{}
	for i := range pods {
		out[pods[i].UID] = seen{pods[i].Spec, pods[i].Labels, pods[i].Annotations}
	}
	return out
}
