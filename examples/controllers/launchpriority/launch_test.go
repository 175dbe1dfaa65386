package launchpriority_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// The tests write the status of Pods themselves: a simulated Node would start all containers at once.
var env = controlplanetest.NewShared(controlplane.Options{Nodes: 10, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const (
	agent     = "kruise-manager/test container-launch-priority-controller"
	completed = "apps.kruise.io/container-launch-priority-completed"
)

type cluster struct {
	client.WithWatch
	t         *testing.T
	cp        *controlplane.ControlPlane
	namespace string
}

func idle(t *testing.T) *cluster {
	t.Helper()
	cp := env.Start(t)
	return &cluster{controllertest.Client(t, cp), t, cp, env.Namespace(t)}
}

func (c *cluster) run() (stop func()) {
	c.t.Helper()
	return controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace})
}

// launch creates a Pod as the webhook would change it. The containers are named after their priorities.
func (c *cluster) launch(name string, priorities ...string) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", TerminationGracePeriodSeconds: new(int64(0))},
	}
	for _, p := range priorities {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: "c" + p, Image: "example.test/app:v1", Env: []corev1.EnvVar{{Name: "KRUISE_CONTAINER_PRIORITY", Value: p}},
		})
	}
	order, err := kruise.LaunchOrder()
	if err != nil {
		c.t.Fatal(err)
	}
	if changed, err := order.Inject(pod, ""); err != nil || !changed {
		c.t.Fatalf("changed %v, error %v", changed, err)
	}
	if err := c.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// report writes the status of a Pod as a kubelet does: the given containers are ready, and the other containers wait
// for the ConfigMap.
func (c *cluster) report(pod *corev1.Pod, ready ...string) {
	c.t.Helper()
	base := pod.DeepCopy()
	pod.Status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status := corev1.ContainerStatus{Name: container.Name, Image: container.Image}
		if status.Ready = slices.Contains(ready, container.Name); status.Ready {
			status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
		} else {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	if err := c.Status().Patch(c.t.Context(), pod, client.MergeFrom(base)); err != nil {
		c.t.Fatal(err)
	}
}

// barrier contains the fields of a Pod's ConfigMap that the tests compare.
type barrier struct {
	Owner types.UID
	Keys  map[string]string
}

func (c *cluster) until(check func(ctx context.Context) error) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, check)
}

// opened waits until a Pod's ConfigMap has exactly the keys.
func (c *cluster) opened(pod *corev1.Pod, keys ...string) *corev1.ConfigMap {
	c.t.Helper()
	want := barrier{Owner: pod.UID, Keys: map[string]string{}}
	for _, key := range keys {
		want.Keys[key] = "true"
	}
	var found corev1.ConfigMap
	c.until(func(ctx context.Context) error {
		found = corev1.ConfigMap{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: pod.Name + "-barrier"}, &found); err != nil {
			return err
		}
		got := barrier{Keys: found.Data}
		for _, ref := range found.OwnerReferences {
			if diff := cmp.Diff(metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: ref.UID}, ref); diff != "" {
				return fmt.Errorf("reference (-want +got):\n%s", diff)
			}
			got.Owner = ref.UID
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("ConfigMap (-want +got):\n%s", diff)
		}
		return nil
	})
	return &found
}

// marked waits until the Pod is marked as completed.
func (c *cluster) marked(pod *corev1.Pod) {
	c.t.Helper()
	c.until(func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Annotations[completed] != "true" {
			return fmt.Errorf("annotations %v", pod.Annotations)
		}
		return nil
	})
}

func (c *cluster) requests(offset int64) map[string]int {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), offset, agent)
	return controllertest.Tally(requests, c.namespace)
}

// TestPrioritiesOneAfterTheOther: the controller opens the barriers of a priority, so that its containers start, when
// all containers of higher priorities are ready. The Pod is annotated as completed when the last barriers are opened,
// and the controller ignores a later crash of a container.
func TestPrioritiesOneAfterTheOther(t *testing.T) {
	c := idle(t)
	c.run()
	offset := controllertest.End(t, c.cp.AuditLog())
	pod := c.launch("web", "0", "5", "-3")
	c.opened(pod, "p_5")
	c.report(pod)
	c.report(pod, "c5")
	c.opened(pod, "p_5", "p_0")
	if pod.Annotations[completed] != "" {
		t.Error("LP-9 marked before the last priority")
	}
	c.report(pod, "c5", "c0")
	c.opened(pod, "p_5", "p_0", "p_-3")
	c.marked(pod)
	c.report(pod, "c5", "c0", "c-3")
	want := map[string]int{"create configmaps": 1, "patch configmaps": 2, "patch pods": 1}
	if diff := cmp.Diff(want, c.requests(offset)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestBarrierOfAFormerPod: the controller replaces the ConfigMap of an earlier Pod of the same name before any
// container starts, and the garbage collector does not delete the new ConfigMap.
func TestBarrierOfAFormerPod(t *testing.T) {
	c := idle(t)
	c.run()
	left := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace, Name: "web-barrier", Finalizers: []string{"example.test/hold"}, // without the finalizer, the garbage collector might delete the ConfigMap first
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "of-a-former-pod"}},
		},
		Data: map[string]string{"p_1": "true", "p_0": "true"},
	}
	if err := c.Create(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	offset := controllertest.End(t, c.cp.AuditLog())
	pod := c.launch("web", "1", "0")
	c.until(func(context.Context) error {
		if requests := c.requests(offset); requests["delete configmaps"] == 0 {
			return fmt.Errorf("requests %v: want a deletion", requests)
		}
		return nil
	})
	if err := c.Patch(t.Context(), left, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if made := c.opened(pod, "p_1"); made.UID == left.UID {
		t.Error("the ConfigMap is the same object: the collector may be about to delete it")
	}
	c.report(pod, "c1")
	c.opened(pod, "p_1", "p_0")
	c.marked(pod)
}

// TestBarrierOfSomebodyElse: the controller does not change a ConfigMap of the needed name that no Pod owns. An event
// contains a remedy. After the deletion of the ConfigMap, the containers start.
func TestBarrierOfSomebodyElse(t *testing.T) {
	c := idle(t)
	c.run()
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web-barrier"}, Data: map[string]string{"mine": "x"}}
	if err := c.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	pod := c.launch("web", "1", "0")
	c.until(func(ctx context.Context) error {
		var events corev1.EventList
		if err := c.List(ctx, &events, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "BarrierOfAnother" && e.InvolvedObject.Name == "web" && strings.Contains(e.Message, "web-barrier") {
				return nil
			}
		}
		return fmt.Errorf("%d events, and none about the ConfigMap", len(events.Items))
	})
	var found corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(mine), &found); err != nil || found.ResourceVersion != mine.ResourceVersion {
		t.Errorf("ConfigMap %+v, error %v: want it as it was", found, err)
	}
	if err := c.Delete(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	c.opened(pod, "p_1")
}

// TestLostBarrier: if a container needs a deleted ConfigMap, the ConfigMap is created again, even if the Pod is
// annotated as completed.
func TestLostBarrier(t *testing.T) {
	c := idle(t)
	c.run()
	pod := c.launch("web", "1", "0")
	c.opened(pod, "p_1")
	c.report(pod, "c1")
	lost := c.opened(pod, "p_1", "p_0")
	c.marked(pod)
	c.report(pod, "c1", "c0")
	if err := c.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	c.report(pod, "c0") // the second container has crashed and cannot be recreated
	if again := c.opened(pod, "p_1", "p_0"); again.UID == lost.UID {
		t.Error("the ConfigMap was not deleted")
	}
}

// TestRestart: a new manager continues the work of the previous manager, with the same ConfigMap.
func TestRestart(t *testing.T) {
	c := idle(t)
	stop := c.run()
	pod := c.launch("web", "1", "0")
	first := c.opened(pod, "p_1")
	stop()
	c.report(pod, "c1")
	offset := controllertest.End(t, c.cp.AuditLog())
	c.run()
	if found := c.opened(pod, "p_1", "p_0"); found.UID != first.UID {
		t.Error("the ConfigMap was made anew")
	}
	c.marked(pod)
	want := map[string]int{"create configmaps (409)": 1, "patch configmaps": 1, "patch pods": 1}
	if diff := cmp.Diff(want, c.requests(offset)); diff != "" {
		t.Errorf("requests, without the read (-want +got):\n%s", diff)
	}
}

// TestSuccessor: the ConfigMap is deleted with its Pod, and the containers of a new Pod of the same name start in
// order.
func TestSuccessor(t *testing.T) {
	c := idle(t)
	c.run()
	pod := c.launch("web", "1", "0")
	c.opened(pod, "p_1")
	c.report(pod, "c1")
	c.opened(pod, "p_1", "p_0")
	c.marked(pod)
	if err := c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	next := c.launch("web", "1", "0")
	c.opened(next, "p_1")
	if err := c.Delete(t.Context(), next, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	c.until(func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "web-barrier"}, &corev1.ConfigMap{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the ConfigMap is still there: %w", err)
		}
		return nil
	})
}
