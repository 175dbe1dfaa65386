package broadcastjob_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestSample runs the sample on all Nodes, on a fifth of the Nodes at a time: the controller sends a single write for
// each Pod, besides writes of the status. Then the test deletes the job.
func TestSample(t *testing.T) {
	c := idle(t, 9) // and the Node of the control plane
	offset := controllertest.End(t, c.cp.AuditLog())
	controllertest.Watch(t, c, c.namespace, func(pods map[types.UID]*corev1.Pod) {
		active, nodes := 0, map[string]bool{}
		for _, pod := range pods {
			if podstate.IsActive(pod) {
				active++
			}
			if nodes[c.nodeOf(pod)] {
				t.Errorf("BJ-4 two Pods on %s", c.nodeOf(pod))
			}
			nodes[c.nodeOf(pod)] = true
		}
		if active > 2 {
			t.Errorf("BJ-7 %d Pods run at once, want 2 of 10 Nodes", active)
		}
	})
	c.run()
	raw, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	j := &v1beta1.BroadcastJob{}
	if err := yaml.UnmarshalStrict(raw, j); err != nil {
		t.Fatal(err)
	}
	j.Namespace = c.namespace
	if err := c.Create(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	done := c.until(j.Name, v1beta1.PhaseCompleted, 10, 0, 10, 0)
	if !done.Status.Holds(v1beta1.JobComplete) || done.Status.CompletionTime == nil || done.Status.StartTime == nil {
		t.Errorf("BJ-15 %+v", done.Status)
	}
	c.untilTold(j.Name, map[string]int32{apps.EventJobComplete: 1})
	pods, err := c.pods(t.Context(), j.Name)
	if err != nil || len(pods) != 10 {
		t.Fatalf("%d Pods, %v", len(pods), err)
	}
	for _, pod := range pods {
		want := []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "BroadcastJob", Name: j.Name, UID: j.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
		if diff := cmp.Diff(want, pod.OwnerReferences); diff != "" || pod.GenerateName != j.Name+"-" || pod.Labels[apps.LabelBroadcastJobUID] != string(j.UID) {
			t.Errorf("BJ-5 Pod %s, %s, %v\n%s", pod.Name, pod.GenerateName, pod.Labels, diff)
		}
	}
	controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		if _, err := c.get(ctx, j.Name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("BJ-19 the job is there: %w", err)
		}
		return nil
	})
	got := c.writes(offset)
	if patches := got["patch broadcastjobs/status"]; patches > 12 {
		t.Errorf("%d status writes for 10 Pods", patches)
	}
	delete(got, "patch broadcastjobs/status")
	if diff := cmp.Diff(map[string]int{"create pods": 10, "delete broadcastjobs": 1}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestFailFast: after one Pod has failed, the remaining Pods are deleted and count as failed.
func TestFailFast(t *testing.T) {
	c := start(t, 5)
	c.job("fast")
	pods := c.untilPods("fast", time.Minute, "n0", "n1", "n2", "n3", "n4")
	c.steer(pods[1], controlplane.Fail)
	j := c.until("fast", v1beta1.PhaseFailed, 5, 0, 0, 5)
	if failed := j.Status.Condition(v1beta1.JobFailed); failed == nil || failed.Status != "True" || failed.Reason != "Failed" || j.Status.CompletionTime == nil {
		t.Errorf("BJ-10 %+v", j.Status)
	}
	left, err := c.pods(t.Context(), "fast")
	if err != nil || len(left) != 1 || left[0].UID != pods[1].UID {
		t.Errorf("BJ-10 left are %d Pods, %v", len(left), err)
	}
	c.untilTold("fast", map[string]int32{apps.EventJobFailed: 1})
}

// TestNodes: if a Node is cordoned or tainted, the Node's Pod is deleted, and the Pod does not count as failed. When
// the cordon or the taint is removed, the Node gets a Pod again. A new Node gets its Pod at once.
func TestNodes(t *testing.T) {
	c := start(t, 3)
	c.job("watch")
	c.untilPods("watch", time.Minute, "n0", "n1", "n2")
	c.changeNode("n0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	c.changeNode("n1", func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})
	})
	c.untilPods("watch", 20*time.Second, "n2")
	c.until("watch", v1beta1.PhaseRunning, 1, 1, 0, 0)
	c.changeNode("n0", func(n *corev1.Node) { n.Spec.Unschedulable = false })
	c.changeNode("n1", func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] })
	c.untilPods("watch", 20*time.Second, "n0", "n1", "n2")
	c.addNode("n3")
	joined := time.Now()
	pods := c.untilPods("watch", 20*time.Second, "n0", "n1", "n2", "n3")
	if took := pods[3].CreationTimestamp.Sub(joined); took > 2*time.Second {
		t.Errorf("BJ-20 the Pod came %s after its Node", took)
	}
	for _, pod := range pods {
		c.steer(pod, controlplane.Complete)
	}
	c.until("watch", v1beta1.PhaseCompleted, 4, 0, 4, 0)
}

// TestPause: a failed Pod pauses the job until the failed Pod is deleted. A pause by the spec lasts until the spec
// changes.
func TestPause(t *testing.T) {
	c := start(t, 3)
	c.job("careful", func(j *v1beta1.BroadcastJob) {
		j.Spec.FailurePolicy.Type, j.Spec.Parallelism = v1beta1.FailurePolicyTypePause, ptr.To(intstr.FromInt32(1))
	})
	pods := c.untilPods("careful", time.Minute, "n0")
	c.steer(pods[0], controlplane.Fail)
	j := c.until("careful", v1beta1.PhasePaused, 3, 0, 0, 1)
	if held := j.Status.Condition(v1beta1.JobPaused); held == nil || held.ObservedGeneration != j.Generation {
		t.Errorf("BJ-12 %+v", j.Status)
	}
	offset, paused := controllertest.End(t, c.cp.AuditLog()), time.Now() // the write of the pause may not be in the log yet
	c.job("witness", ends)                                               // by then any wrong write would have happened
	c.until("witness", v1beta1.PhaseCompleted, 3, 0, 3, 0)
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
	for _, r := range requests {
		if r.Name == "careful" && r.IsWrite() && r.Resource != "events" && r.Received.After(paused) {
			t.Errorf("BJ-12 a paused job is written to: %s", r.String())
		}
	}
	if err := c.Delete(t.Context(), pods[0]); err != nil {
		t.Fatal(err)
	}
	c.until("careful", v1beta1.PhaseRunning, 3, 1, 0, 0)
	c.change("careful", func(j *v1beta1.BroadcastJob) { j.Spec.Paused = true })
	c.until("careful", v1beta1.PhasePaused, 3, 1, 0, 0)
	c.change("careful", func(j *v1beta1.BroadcastJob) {
		j.Spec.Paused, j.Spec.Template.Annotations = false, map[string]string{controlplane.Complete: "true"}
	})
	again, err := c.pods(t.Context(), "careful")
	if err != nil || len(again) == 0 {
		t.Fatal(again, err)
	}
	c.steer(again[0], controlplane.Complete) // this Pod was created before the pause, and continues
	c.until("careful", v1beta1.PhaseCompleted, 3, 0, 3, 0)
	c.untilTold("careful", map[string]int32{apps.EventPaused: 2, apps.EventContinue: 2, apps.EventJobComplete: 1})
}

// TestDeadlineAfterRestart: after a restart, the controller ends a job at its deadline even if no event occurs.
func TestDeadlineAfterRestart(t *testing.T) {
	c := idle(t, 2)
	stop := c.run()
	c.job("late", func(j *v1beta1.BroadcastJob) { j.Spec.CompletionPolicy.ActiveDeadlineSeconds = ptr.To[int64](12) })
	c.until("late", v1beta1.PhaseRunning, 2, 2, 0, 0)
	c.untilPods("late", time.Minute, "n0", "n1")
	stop()
	c.run()
	j := c.until("late", v1beta1.PhaseFailed, 2, 0, 0, 2)
	if failed := j.Status.Condition(v1beta1.JobFailed); failed == nil || failed.Reason != apps.EventDeadlineExceeded {
		t.Errorf("BJ-14 %+v", j.Status)
	}
	if late := j.Status.CompletionTime.Sub(j.Status.StartTime.Time); late < 12*time.Second || late > 20*time.Second {
		t.Errorf("BJ-14 failed %s after the start", late)
	}
	c.untilTold("late", map[string]int32{apps.EventDeadlineExceeded: 1})
}

// TestTakeOver creates the objects that OpenKruise 1.9 has left in the middle of a job, and checks that nothing is
// written. Then the job continues when a Pod ends.
func TestTakeOver(t *testing.T) {
	c := idle(t, 0)
	for _, name := range []string{"sim-02", "sim-09", "sim-16", "sim-17"} {
		c.createNode(controlplane.NewNode(name))
	}
	controlplanetest.Eventually(t, 10*time.Second, func(ctx context.Context) error { // the Pods are on simulated Nodes
		node := &corev1.Node{}
		if err := c.Get(ctx, types.NamespacedName{Name: controlplane.FirstNode}, node); err != nil {
			return err
		}
		node.Spec.Unschedulable = true
		return c.Update(ctx, node)
	})
	controllertest.Restore(t, c, c.namespace, "testdata/openkruise-1.9.yaml")
	for name, nodes := range map[string]int32{"once": 4, "tick-1795252260": 4} { // as if there had been no other Nodes, nor Pods
		j, err := c.get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		j.Status.Desired, j.Status.Active = nodes, 2
		if err := c.Status().Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		c.change(name, func(j *v1beta1.BroadcastJob) { j.Spec.Parallelism = ptr.To(intstr.FromInt32(2)) })
	}
	before, err := c.pods(t.Context(), "once")
	if err != nil || len(before) != 2 {
		t.Fatalf("restored %d Pods, %v", len(before), err)
	}
	offset := controllertest.End(t, c.cp.AuditLog())
	c.addNode("n0")
	c.run()
	c.job("witness", ends)
	c.until("witness", v1beta1.PhaseCompleted, 1, 0, 1, 0)
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
	for _, r := range requests {
		if r.Namespace == c.namespace && r.IsWrite() && (r.Name == "once" || r.Name == "tick-1795252260" || len(r.Name) > 5 && r.Name[:5] == "once-") {
			t.Errorf("the switch writes: %s %s", r.String(), r.Name)
		}
	}
	c.steer(before[0], controlplane.Complete)
	c.until("once", v1beta1.PhaseRunning, 4, 2, 1, 0)
	after, err := c.pods(t.Context(), "once")
	if err != nil || len(after) != 3 {
		t.Errorf("%d Pods, %v", len(after), err)
	}
}
