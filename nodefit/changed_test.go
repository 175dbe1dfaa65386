package nodefit_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/nodefit"
)

func TestChanged(t *testing.T) {
	node := func() *corev1.Node {
		return newNode("n1", map[string]string{"disk": "ssd", "zone": "a"}, taint("gpu", "a", corev1.TaintEffectNoSchedule))
	}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"D-26 nothing", func(*corev1.Node) {}, false},
		{"D-26 a report of its health", func(n *corev1.Node) {
			n.ResourceVersion = "8"
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastHeartbeatTime: metav1.NewTime(time.Unix(9, 0))}}
		}, false},
		{"D-26 what it has room for", func(n *corev1.Node) {
			n.Status.Allocatable, n.Status.Images = corev1.ResourceList{}, []corev1.ContainerImage{{}}
		}, false},
		{"an annotation", func(n *corev1.Node) { n.Annotations = map[string]string{"ttl": "0"} }, false},
		{"its provider", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///i-1" }, false},
		{"D-26 a label has another value", func(n *corev1.Node) { n.Labels["disk"] = "hdd" }, true},
		{"a label is gone", func(n *corev1.Node) { delete(n.Labels, "zone") }, true},
		{"another label", func(n *corev1.Node) { delete(n.Labels, "zone"); n.Labels["area"] = "a" }, true},
		{"D-26 cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"D-26 another taint", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, taint("x", "", corev1.TaintEffectNoExecute))
		}, true},
		{"no taint", func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		{"a taint has another value", func(n *corev1.Node) { n.Spec.Taints[0].Value = "b" }, true},
		{"a taint has another effect", func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectNoExecute }, true},
		{"another Node", func(n *corev1.Node) { n.Name = "n2" }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := node(), node()
			tc.change(after)
			if got := nodefit.Changed(before, after); got != tc.want {
				t.Errorf("Changed = %t, want %t", got, tc.want)
			}
			if got := nodefit.Changed(after, before); got != tc.want {
				t.Errorf("Changed back = %t, want %t", got, tc.want)
			}
		})
	}
	bare, empty := newNode("n1", nil), newNode("n1", map[string]string{})
	if empty.Spec.Taints = []corev1.Taint{}; nodefit.Changed(bare, empty) || nodefit.Changed(empty, bare) {
		t.Error("nothing and an empty list are told apart")
	}
}
