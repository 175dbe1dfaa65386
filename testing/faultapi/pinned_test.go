package faultapi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestPinned: a Pod whose affinity names a Node is bound only to this Node, if the Node exists and has no taint that
// the Pod does not tolerate.
func TestPinned(t *testing.T) {
	tainted := corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.test/dedicated", Effect: corev1.TaintEffectNoSchedule}}}
	for _, tc := range []struct {
		name   string
		pinned bool
		kinds  []*corev1.Node // existing Nodes; nil for a server without Nodes
		want   string
	}{
		{"no Nodes are served, and none is named", false, nil, "node-0"},
		{"no Nodes are served", true, nil, "n1"},
		{"none is named", false, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, "node-0"},
		{"the Node is there", true, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, "n1"},
		{"another Node is there", true, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}, ""},
		{"the Node has a taint", true, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: tainted}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := serverWith(t, tc.kinds)
			pod := named("web-0")
			if tc.pinned {
				nodefit.Pin(&pod.Spec, "n1")
			}
			if err := server.Client(nil, nil).Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			changed := server.Nodes().Schedule(pod, "node-0")
			if got := faultapi.All[*corev1.Pod](server)[0].Spec.NodeName; got != tc.want || changed != (got != "") {
				t.Errorf("on Node %q, changed %t, want %q", got, changed, tc.want)
			}
		})
	}
}

// TestLostNodes: the Pods of a deleted Node are removed at once, without their kubelet. The remaining Pods are left
// alone.
func TestLostNodes(t *testing.T) {
	server := serverWith(t, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}})
	user := server.Client(nil, nil)
	for name, node := range map[string]string{"lost": "n1", "kept": "n2", "pending": ""} {
		pod := named(name)
		pod.Spec.NodeName = node
		if err := user.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if server.CollectGarbage() {
		t.Error("something was collected while all Nodes are there")
	}
	if err := user.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	server.CollectGarbage()
	var left []string
	for _, pod := range faultapi.All[*corev1.Pod](server) {
		left = append(left, pod.Name)
	}
	if diff := cmp.Diff([]string{"kept", "pending"}, left); diff != "" {
		t.Errorf("Pods left (-want +got):\n%s", diff)
	}
}

// TestNodeStatus: status and spec of a Node are written by separate requests.
func TestNodeStatus(t *testing.T) {
	server := serverWith(t, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}})
	user := server.Client(nil, nil)
	both := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Unschedulable: true},
			Status: corev1.NodeStatus{Phase: corev1.NodeRunning},
		}
	}
	type state struct {
		Cordoned bool
		Phase    corev1.NodePhase
	}
	now := func() state {
		node := faultapi.All[*corev1.Node](server)[0]
		return state{node.Spec.Unschedulable, node.Status.Phase}
	}
	if err := user.Status().Update(t.Context(), both()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state{Phase: corev1.NodeRunning}, now()); diff != "" {
		t.Errorf("after the status was written (-want +got):\n%s", diff)
	}
	node := both()
	node.Status.Phase = corev1.NodeTerminated
	if err := user.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state{Cordoned: true, Phase: corev1.NodeRunning}, now()); diff != "" {
		t.Errorf("after the rest was written (-want +got):\n%s", diff)
	}
}

func serverWith(t *testing.T, nodes []*corev1.Node) *faultapi.Server {
	t.Helper()
	now := func() time.Time { return time.Unix(1000, 0) }
	if nodes == nil {
		server, err := faultapi.New(newScheme(t), now)
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server, err := faultapi.New(newScheme(t), now, &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		if err := server.Client(nil, nil).Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	return server
}
