package daemonset_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestNodes checks which Nodes get a Pod and which Nodes keep their Pod, while Nodes are added, changed and deleted.
func TestNodes(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.create(c.daemonSet("agent"), "n1", "n2", "n3")
	pods := c.untilPods("agent", "n1", "n2", "n3")
	for _, pod := range pods {
		if pod.GenerateName != "agent-" || pod.Spec.SchedulerName != corev1.DefaultSchedulerName || len(pod.Labels["controller-revision-hash"]) > 10 {
			t.Errorf("D-2, D-8 Pod %s: generateName %q, scheduler %s, labels %v", pod.Name, pod.GenerateName, pod.Spec.SchedulerName, pod.Labels)
		}
	}

	began := time.Now()
	c.addNode("n4")
	c.untilPods("agent", "n1", "n2", "n3", "n4")
	t.Logf("a Node that was added has an available Pod after %s", time.Since(began).Round(time.Millisecond))

	// The next taints are a taint without effect on running Pods, a taint with effect on them, and a cordon.
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "example.test/broken", Value: "yes", Effect: effect})
		}
	}
	c.changeNode("n1", taint(corev1.TaintEffectNoSchedule))
	c.until("agent", func(set *v1beta1.DaemonSet) error {
		if s := set.Status; s.DesiredNumberScheduled != 3 || s.NumberMisscheduled != 1 || s.NumberAvailable != 3 || s.CurrentNumberScheduled != 3 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	c.changeNode("n2", func(node *corev1.Node) { node.Spec.Unschedulable = true })
	c.changeNode("n3", func(node *corev1.Node) { delete(node.Labels, owned) })
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		now, err := c.pods(ctx, "agent")
		var nodes []string
		for _, pod := range now {
			nodes = append(nodes, c.nodeOf(pod))
		}
		if diff := cmp.Diff([]string{"n1", "n2", "n4"}, nodes); diff != "" {
			return fmt.Errorf("D-1 Pods on Nodes (-want +got):\n%s: %w", diff, err)
		}
		return nil
	})
	if err := c.Delete(t.Context(), &corev1.Node{ObjectMeta: metaName(c.nodeName("n4"))}); err != nil {
		t.Fatal(err)
	}
	c.until("agent", func(set *v1beta1.DaemonSet) error {
		if s := set.Status; s.DesiredNumberScheduled != 1 {
			return fmt.Errorf("a Node is gone: status %+v", s)
		}
		return nil
	})
}

// TestIdle: if there is nothing to do, the controller sends no request, whatever kubelets report.
func TestIdle(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	c.create(c.daemonSet("agent"), "n1", "n2")
	offset := controllertest.End(t, c.cp.AuditLog())
	for i := range 5 {
		node := &corev1.Node{ObjectMeta: metaName(c.nodeName("n1"))}
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Beat","status":"True","message":"%d"}]}}`, i)
		if err := c.Status().Patch(t.Context(), node, rawPatch(types.StrategicMergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
	c.create(c.daemonSet("witness"), "n1", "n2") // by then any request would have been sent
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
	for _, r := range requests {
		if r.Namespace == c.namespace && r.Name == "agent" {
			t.Errorf("%s %s %s", r.Verb, r.Resource, r.Name)
		}
	}
}
