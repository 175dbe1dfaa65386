package containerrecreaterequest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestRestart acts as the node agent in a whole restart of a container. The Pod becomes not ready first, the new
// instance appears in the request's status, and in the end no entry of the request is left in the Pod's readiness
// gate. The number of requests to the API server does not depend on the time that the restart takes.
func TestRestart(t *testing.T) {
	c := idle(t)
	c.serve()
	pod := c.pod("web")
	offset := controllertest.End(t, c.cp.AuditLog())
	obj := c.request("restart", pod, unready)
	if hook := obj.Spec.Containers[0].PreStop; hook == nil || hook.Sleep == nil || hook.Sleep.Seconds != 3 || obj.Labels[apps.LabelRequestActive] != "true" {
		t.Errorf("CR-3, 4.6 hook %+v, labels %v", hook, obj.Labels)
	}
	c.phase(obj, "Recreating")
	c.until(obj, func(obj *object) bool {
		return meta.IsStatusConditionTrue(obj.Status.Conditions, apps.ConditionPreRecreateGrace)
	})
	since := obj.Status.Conditions[0].LastTransitionTime
	c.untilPod(pod, func(pod *corev1.Pod) bool { return !podstate.IsReady(pod) })
	want := []podreadiness.Holder{{UserAgent: "ContainerRecreateRequest", Key: c.namespace + "/restart"}}
	if diff := cmp.Diff(want, c.holders(pod)); diff != "" {
		t.Errorf("CR-14 holders (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{apps.FinalizerRequestUnreadyAcquired}, obj.Finalizers); diff != "" {
		t.Errorf("CR-14 finalizers (-want +got):\n%s", diff)
	}
	old := c.stop(pod)
	c.until(obj, func(obj *object) bool {
		s := obj.Status.ContainerStatusSnapshot
		return len(s) == 1 && s[0].ContainerID != old && s[0].Ready && s[0].RestartCount == 1
	})
	c.report(obj, func(s *v1beta1.ContainerRecreateRequestStatus) {
		s.Phase, s.CompletionTime = "Completed", new(metav1.Now())
		s.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{{Name: "app", Phase: "Succeeded", IsKilled: true}}
	})
	c.untilCompleted(obj, "")
	c.untilPod(pod, podstate.IsReady)
	if len(c.holders(pod)) > 0 || !obj.Status.Conditions[0].LastTransitionTime.Equal(&since) || len(obj.Status.ContainerRecreateStates) != 1 {
		t.Errorf("CR-15 conditions %+v, Pod %+v", obj.Status, pod.Status.Conditions)
	}
	if told := c.told(obj); len(told) > 0 {
		t.Errorf("events %v", told)
	}
	got := c.requests(offset)
	t.Logf("requests for a restart: %v", got)
	for request, most := range map[string]int{
		"patch containerrecreaterequests": 2, "patch containerrecreaterequests/status": 3, "patch pods/status": 2, "get pods": 8,
	} {
		if got[request] > most {
			t.Errorf("%d times %s", got[request], request)
		}
	}
}

// TestEnds: the controller completes requests that no node agent can complete.
func TestEnds(t *testing.T) {
	c := idle(t)
	c.serve()
	t.Run("parallel", func(t *testing.T) {
		t.Run("CR-10 the Pod is deleted while it is held", func(t *testing.T) {
			t.Parallel()
			c := c.on(t)
			pod := c.pod("deleted")
			obj := c.request("deleted", pod, unready)
			c.phase(obj, "Recreating")
			c.untilPod(pod, func(pod *corev1.Pod) bool { return !podstate.IsReady(pod) })
			if err := c.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			c.untilCompleted(obj, "pod has gone")
		})
		t.Run("CR-11 no agent", func(t *testing.T) {
			t.Parallel()
			c := c.on(t)
			obj := c.request("silent", c.pod("silent"))
			c.untilCompleted(obj, "daemon has not responded for a long time")
			if took := obj.Status.CompletionTime.Sub(obj.CreationTimestamp.Time); took < minute || took > minute+10*time.Second {
				t.Errorf("completed after %s", took)
			}
		})
		t.Run("CR-12 the deadline, CR-62 and an agent that is late", func(t *testing.T) {
			t.Parallel()
			c := c.on(t)
			pod := c.pod("late")
			obj := c.request("late", pod, unready, deadline(4))
			c.phase(obj, "Recreating")
			seen := obj.DeepCopy()
			c.untilCompleted(obj, "recreating has exceeded the activeDeadlineSeconds")
			seen.Status.Phase, seen.Status.CompletionTime = "Completed", new(metav1.Now())
			if err := c.Status().Update(t.Context(), seen); !apierrors.IsConflict(err) {
				t.Errorf("CR-62 the agent's end: %v", err)
			}
			c.untilPod(pod, podstate.IsReady)
			controlplanetest.Eventually(t, minute, func(context.Context) error {
				if told := c.told(obj); len(told) != 1 || !strings.HasPrefix(told[0], "CompletedEarly: DeadlineExceeded: spec.activeDeadlineSeconds: 4s") {
					return fmt.Errorf("events %q", told)
				}
				return nil
			})
		})
		t.Run("4.9 a status of a megabyte", func(t *testing.T) {
			t.Parallel()
			c := c.on(t)
			obj := c.request("large", c.pod("large"), unready, deadline(4))
			c.report(obj, func(s *v1beta1.ContainerRecreateRequestStatus) {
				s.Phase = "Recreating"
				for i := range 1000 {
					s.ContainerRecreateStates = append(s.ContainerRecreateStates, v1beta1.ContainerRecreateRequestContainerRecreateState{
						Name: fmt.Sprint("stranger-", i), Phase: "Pending", Message: strings.Repeat("x", 1000),
					})
				}
			})
			c.untilCompleted(obj, "recreating has exceeded the activeDeadlineSeconds")
			if n := len(obj.Status.ContainerRecreateStates); n > 0 {
				t.Errorf("%d states of containers that nobody asks for", n)
			}
		})
		t.Run("CR-15 the ttl", func(t *testing.T) {
			t.Parallel()
			c := c.on(t)
			obj := c.request("short", c.pod("short"), ttl(2))
			c.report(obj, func(s *v1beta1.ContainerRecreateRequestStatus) {
				s.Phase, s.CompletionTime = "Completed", new(metav1.Now())
			})
			c.untilGone(obj)
		})
		t.Run("CR-15 deleted while its Pod is held", func(t *testing.T) {
			t.Parallel()
			c := c.on(t)
			pod := c.pod("dropped")
			obj := c.request("dropped", pod, unready)
			c.phase(obj, "Recreating")
			c.untilPod(pod, func(pod *corev1.Pod) bool { return !podstate.IsReady(pod) })
			if err := c.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			c.untilGone(obj)
			c.untilPod(pod, podstate.IsReady)
		})
	})
}

func (c *cluster) untilGone(obj *object) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("finalizers %v, %+v: %w", obj.Finalizers, obj.Status, err)
		}
		return nil
	})
}

// TestLine: while a request waits for another request for the same Pod, a condition of the waiting request names the
// other request.
func TestLine(t *testing.T) {
	c := idle(t)
	c.serve()
	pod := c.pod("web")
	first, second := c.request("first", pod), c.request("second", pod)
	c.phase(first, "Recreating")
	c.phase(second, "Pending")
	c.until(second, func(obj *object) bool {
		waiting := meta.FindStatusCondition(obj.Status.Conditions, apps.ConditionWaiting)
		return waiting != nil && waiting.Reason == "BehindRequest" && waiting.Message == "ContainerRecreateRequest "+c.namespace+"/first: goes first, and has no deadline; "+
			"wait for the end of ContainerRecreateRequest "+c.namespace+"/first, or delete it"
	})
	if err := c.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	c.until(second, func(obj *object) bool { return len(obj.Status.Conditions) == 0 })
}

// TestAway: if a Pod is replaced and its request is deleted while no manager runs, the next manager does not change
// the new Pod.
func TestAway(t *testing.T) {
	c := idle(t)
	pod := c.pod0()
	obj := &object{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "restart", Finalizers: []string{apps.FinalizerRequestUnreadyAcquired}, Labels: map[string]string{
		apps.LabelRequestActive: "true", apps.LabelRequestPodUID: "of-a-former-pod", apps.LabelRequestNodeName: "gone",
	}}}
	obj.Spec.PodName, obj.Spec.Containers = pod.Name, []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}}
	unready(obj)
	c.create(obj)
	c.phase(obj, "Recreating")
	if err := c.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	before := pod.ResourceVersion
	c.serve()
	c.untilGone(obj)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || len(c.holders(pod)) != 1 {
		t.Errorf("CR-15 Pod at %s, was at %s: %+v, %v", pod.ResourceVersion, before, pod.Status.Conditions, err)
	}
}

// pod0 creates a Pod without a Node. The Pod's readiness gate has an entry like the entry of the request named
// restart.
func (c *cluster) pod0() *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web"}}
	pod.Spec = corev1.PodSpec{
		SchedulerName: "nobody", ReadinessGates: []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}},
		Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
	}
	c.create(pod)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: apps.ConditionKruisePodReady, Status: corev1.ConditionFalse, Message: `[{"userAgent":"ContainerRecreateRequest","key":"` + c.namespace + `/restart"}]`,
	}}
	if err := c.Status().Update(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// TestTakeOver starts with objects that OpenKruise 1.9.0 has left: a request in progress, whose Pod is held and whose
// status has a snapshot, and a request that waits for an agent. The manager does not write the first request.
// OpenKruise's agent then continues through v1alpha1.
func TestTakeOver(t *testing.T) {
	c := idle(t)
	for _, name := range []string{"sim-03", "sim-06"} { // the kubelets of these Nodes are not simulated
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.create(node)
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), node) })
	}
	controllertest.RestoreConverted(t, c, c.namespace, "testdata/openkruise-1.9.0.yaml")
	pod, obj := c.restored("busy", "held")
	_, again := c.restored("single", "again")
	c.until(obj, func(obj *object) bool {
		return len(obj.Status.Conditions) == 1 && len(obj.Status.ContainerStatusSnapshot) == 1
	})
	untouched := obj.DeepCopy()
	offset := controllertest.End(t, c.cp.AuditLog())
	c.serve()
	witness := c.request("witness", c.pod("witness"), deadline(3))
	c.untilCompleted(witness, "recreating has exceeded the activeDeadlineSeconds")
	c.until(obj, func(*object) bool { return true })
	if diff := cmp.Diff(untouched.ObjectMeta.ResourceVersion, obj.ResourceVersion); diff != "" || len(c.holders(pod)) != 1 {
		t.Errorf("the switch writes: %v\n%s", c.requests(offset), cmp.Diff(untouched, obj))
	}

	// OpenKruise's agent lists and reports in this version.
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps.kruise.io/v1alpha1")
	list.SetKind("ContainerRecreateRequestList")
	mine := client.MatchingLabels{apps.LabelRequestNodeName: "sim-03", apps.LabelRequestActive: "true"}
	if err := c.List(t.Context(), list, client.InNamespace(c.namespace), mine); err != nil || len(list.Items) != 1 {
		t.Fatalf("MG-62 %d requests in v1alpha1, %v", len(list.Items), err)
	}
	want := map[string]string{
		apps.AnnotationRequestUnreadyAcquired:       "2026-11-25T18:20:03Z",
		apps.AnnotationRequestSyncContainerStatuses: `[{"name":"a","ready":true,"restartCount":1,"containerID":"sim://2222"}]`,
	}
	old := &list.Items[0]
	if diff := cmp.Diff(want, old.GetAnnotations()); diff != "" {
		t.Errorf("MG-62 annotations (-want +got):\n%s", diff)
	}
	status := map[string]any{
		"phase": "Completed", "completionTime": metav1.Now().UTC().Format(time.RFC3339),
		"containerRecreateStates": []any{map[string]any{"name": "a", "phase": "Succeeded", "isKilled": true}},
	}
	if err := unstructured.SetNestedMap(old.Object, status, "status"); err != nil {
		t.Fatal(err)
	}
	if err := c.Status().Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	c.untilCompleted(obj, "")
	if since := untouched.Status.Conditions[0].LastTransitionTime; len(obj.Status.Conditions) != 1 || !obj.Status.Conditions[0].LastTransitionTime.Equal(&since) {
		t.Errorf("CR-40 conditions %+v", obj.Status.Conditions)
	}
	c.untilPod(pod, func(pod *corev1.Pod) bool {
		return podstate.IsTrue(pod, apps.ConditionKruisePodReady) && len(c.holders(pod)) == 0
	})
	c.untilCompleted(again, "daemon has not responded for a long time")
}

// restored sets the new UID of the Pod in a restored request, and the new namespace in the Pod's condition.
func (c *cluster) restored(podName, name string) (*corev1.Pod, *object) {
	c.t.Helper()
	pod, obj := &corev1.Pod{}, &object{}
	for into, name := range map[client.Object]string{pod: podName, obj: name} {
		if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, into); err != nil {
			c.t.Fatal(err)
		}
	}
	obj.Labels[apps.LabelRequestPodUID] = string(pod.UID)
	if err := c.Update(c.t.Context(), obj); err != nil {
		c.t.Fatal(err)
	}
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].Message = strings.ReplaceAll(pod.Status.Conditions[i].Message, "fixtures", c.namespace)
	}
	if err := c.Status().Update(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	return pod, obj
}
