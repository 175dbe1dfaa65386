package daemon_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestProbesTakeOver: OpenKruise 1.9 has left a PodProbeMarker, the NodePodProbe of a Node, and marks (labels,
// annotations and conditions for probe results) on Pods. Manager and agent write neither the NodePodProbe nor the
// PodProbeMarker, write each Pod once to record the marks in an annotation, and restart no container. After the
// deletion of the PodProbeMarker, the marks are removed.
func TestProbesTakeOver(t *testing.T) {
	n := newNode(t)
	pods := []*corev1.Pod{n.pod("web-b", "app"), n.pod("web-a", "app")} // OpenKruise lists Pods in the order of their creation
	controllertest.Restore(t, n, n.namespace, "../kinds/nodepodprobe/testdata/openkruise-1.9/marker.yaml")
	at := metav1.NewTime(time.Now().Add(time.Second).Truncate(time.Second)) // after the start of the containers
	list := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	var status v1alpha1.NodePodProbeStatus
	for _, pod := range pods {
		n.patch(pod, map[string]any{"metadata": map[string]any{"labels": map[string]string{"app": "web", "probed": "yes"}}})
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.test/probed", Status: corev1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at})
		if err := n.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		list.Spec.PodProbes = append(list.Spec.PodProbes, v1alpha1.PodProbe{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), IP: pod.Status.PodIP,
			Probes: []v1alpha1.ContainerProbe{{Name: "probe#p", ContainerName: "app", Probe: v1alpha1.ContainerProbeSpec{
				Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/x"}}}},
			}}},
		})
		status.PodProbeStatuses = append(status.PodProbeStatuses, v1alpha1.PodProbeStatus{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
			ProbeStates: []v1alpha1.ContainerProbeState{{Name: "probe#p", State: v1alpha1.ProbeSucceeded, LastProbeTime: at, LastTransitionTime: at}},
		})
	}
	n.replaceList(list, status)
	before := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		before[i] = pod.DeepCopy()
	}
	since := controllertest.End(t, n.cp.AuditLog())
	controllertest.Serve(t, n.cp, n, manager.Options{})
	n.agent()
	for i, pod := range pods {
		n.marked(pod, map[string]string{"probed": "yes", "app": "web"}, map[string]corev1.ConditionStatus{"example.test/probed": "True"})
		controlplanetest.Eventually(t, within, func(ctx context.Context) error {
			if err := n.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil || pod.Annotations[apps.AnnotationProbeMarks] != "" {
				return err
			}
			return errors.New("no ledger yet")
		})
		if diff := cmp.Diff(before[i].Spec, pod.Spec); diff != "" || podstate.ContainerStatus(pod, "app").RestartCount != 0 || pod.UID != before[i].UID {
			t.Errorf("Pod %s: %+v (-before +after):\n%s", pod.Name, pod.Status, diff)
		}
	}
	n.checked(6) // a wrong write would have occurred by then
	for agent, most := range map[string]map[string]int{"kruise-manager": {"patch pods/status": len(pods)}, "agent-" + n.namespace: {}} {
		requests, _ := controllertest.Requests(t, n.cp.AuditLog(), since, agent)
		for _, r := range requests {
			what := r.Verb + " " + r.Resource
			isOurs := r.Resource == "pods" || r.Resource == "pods/status" || r.Resource == "nodepodprobes" || r.Resource == "nodepodprobes/status" || r.Resource == "podprobemarkers"
			if most[what]--; r.IsWrite() && isOurs && most[what] < 0 {
				t.Errorf("%s: %s %s (%d)", agent, what, r.Name, r.Code)
			}
		}
	}
	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "probe"}}
	if err := n.Delete(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		n.marked(pod, map[string]string{"probed": ""}, map[string]corev1.ConditionStatus{"example.test/probed": "Unknown"})
	}
}

// replaceList creates the NodePodProbe of the Node, after deleting an object that another test may have left.
func (n *node) replaceList(list *v1alpha1.NodePodProbe, status v1alpha1.NodePodProbeStatus) {
	n.t.Helper()
	old := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: list.Name}}
	if err := client.IgnoreNotFound(n.Delete(n.t.Context(), old)); err != nil {
		n.t.Fatal(err)
	}
	if err := n.Create(n.t.Context(), list); err != nil {
		n.t.Fatal(err)
	}
	list.Status = status
	if err := n.Status().Update(n.t.Context(), list); err != nil {
		n.t.Fatal(err)
	}
}
