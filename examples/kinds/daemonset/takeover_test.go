package daemonset_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
)

// identity contains the fields of a Pod that an in-place update must not change.
type identity struct{ Name, Node, IP string }

func identities(pods []*corev1.Pod) map[types.UID]identity {
	out := map[types.UID]identity{}
	for _, pod := range pods {
		out[pod.UID] = identity{pod.Name, pod.Spec.NodeName, pod.Status.PodIP}
	}
	return out
}

// TestTakeOver creates the objects that OpenKruise 1.9 has left, starts the controller, and checks that no Pod or
// revision is written. Then a rollout that a partition has halted is completed in place, to the revisions that
// OpenKruise has written.
func TestTakeOver(t *testing.T) {
	c := idle(t)
	for _, node := range []string{"sim-06", "sim-19"} {
		c.createNode(node)
	}
	if err := c.Delete(t.Context(), &corev1.Node{ObjectMeta: metaName("sim-01")}); err != nil { // the Node of the control plane; the Pods are on other Nodes
		t.Fatal(err)
	}
	controllertest.Restore(t, c, c.namespace, "testdata/openkruise-1.9/agent.yaml")
	before, err := c.pods(t.Context(), "agent")
	if err != nil || len(before) != 2 {
		t.Fatalf("restored %d Pods, %v", len(before), err)
	}
	offset := controllertest.End(t, c.cp.AuditLog())
	c.addNode("n1")
	c.run()
	c.create(c.daemonSet("witness"), "n1") // by then any wrong write would have happened
	c.until("agent", settled(2, 2))
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
	for _, r := range requests {
		if r.Namespace == c.namespace && strings.HasPrefix(r.Name, "agent") && r.IsWrite() && !strings.HasPrefix(r.Resource, "daemonsets") && r.Resource != "events" {
			t.Errorf("%s %s %s (%d)", r.Verb, r.Resource, r.Name, r.Code)
		}
	}
	was, err := c.get(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	c.change("agent", func(set *v1beta1.DaemonSet) { // back to the previous revision
		set.Spec.Template.Spec.Containers[0].Image = "example.test/agent:v1"
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt32(1))
	})
	c.until("agent", settled(2, 1))
	c.change("agent", func(set *v1beta1.DaemonSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = nil })
	set := c.until("agent", settled(2, 2))
	after, err := c.pods(t.Context(), "agent")
	if diff := cmp.Diff(identities(before), identities(after)); err != nil || diff != "" {
		t.Errorf("the rollout was not in place (-before +after):\n%s, %v", diff, err)
	}
	if set.Status.UpdateRevision != "787dd6dbcf" || was.Status.UpdateRevision != "648478f69b" || len(c.revisions(t.Context())) != 3 { // the third revision belongs to the witness
		t.Errorf("update revision %s after %s, %d revisions", set.Status.UpdateRevision, was.Status.UpdateRevision, len(c.revisions(t.Context())))
	}
}
