package containerrecreaterequest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// This package has a control plane of its own, because the webhooks complete requests and convert the older version.
var env = controlplanetest.New(controlplane.Options{Nodes: 2, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const minute = time.Minute

type object = v1beta1.ContainerRecreateRequest

// cluster is a test's client of the control plane.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
}

func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	return &cluster{controllertest.Client(t, cp), t, cp, env.Namespace(t)}
}

// serve runs the whole manager with its webhooks until the test ends.
func (c *cluster) serve() {
	c.t.Helper()
	controllertest.Serve(c.t, c.cp, c, manager.Options{})
}

// on returns a copy of the cluster that reports failures to a subtest.
func (c *cluster) on(t *testing.T) *cluster { return &cluster{c.WithWatch, t, c.cp, c.namespace} }

func (c *cluster) create(object client.Object) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

// pod creates a Pod with the shared readiness gate and a hook that sleeps, and waits until the Pod is ready.
func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	pod.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(5)), ReadinessGates: []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}},
		Containers: []corev1.Container{{
			Name: "app", Image: "example.test/app:v1", Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}},
		}},
	}
	c.create(pod)
	c.untilPod(pod, func(pod *corev1.Pod) bool { return podstate.IsReady(pod) })
	return pod
}

func (c *cluster) untilPod(pod *corev1.Pod, wanted func(*corev1.Pod) bool) {
	c.t.Helper()
	uid := pod.UID
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.UID != uid || !wanted(pod) {
			return fmt.Errorf("Pod %s: %+v", pod.UID, pod.Status)
		}
		return nil
	})
}

// request creates a request to restart the container app.
func (c *cluster) request(name string, pod *corev1.Pod, edits ...func(*object)) *object {
	c.t.Helper()
	obj := &object{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	obj.Spec.PodName, obj.Spec.Containers = pod.Name, []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}}
	for _, edit := range edits {
		edit(obj)
	}
	c.create(obj)
	return obj
}

// until waits until wanted returns true for a request.
func (c *cluster) until(obj *object, wanted func(*object) bool) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 2*minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		if !wanted(obj) {
			return fmt.Errorf("labels %v, finalizers %v, %+v", obj.Labels, obj.Finalizers, obj.Status)
		}
		return nil
	})
}

// untilCompleted waits until a request has ended with a message, and has left nothing on its Pod.
func (c *cluster) untilCompleted(obj *object, message string) {
	c.t.Helper()
	c.until(obj, func(obj *object) bool {
		_, active := obj.Labels[apps.LabelRequestActive]
		return obj.Status.Phase == "Completed" && obj.Status.Message == message && obj.Status.CompletionTime != nil && !active && len(obj.Finalizers) == 0
	})
}

// report writes a part of a status as a node agent does.
func (c *cluster) report(obj *object, change func(*v1beta1.ContainerRecreateRequestStatus)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(&obj.Status)
		return c.Status().Update(ctx, obj)
	})
}

func (c *cluster) phase(obj *object, phase v1beta1.ContainerRecreateRequestPhase) {
	c.t.Helper()
	c.report(obj, func(s *v1beta1.ContainerRecreateRequestStatus) { s.Phase = phase })
}

// stop ends the running instance of the container app, as the agent does, and returns the ID of the instance.
func (c *cluster) stop(pod *corev1.Pod) string {
	c.t.Helper()
	id := podstate.ContainerStatus(pod, "app").ContainerID
	stopped, err := json.Marshal(map[string]string{"app": id})
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{controlplane.Stopped: string(stopped)}}})
	if err := errors.Join(err, c.Patch(c.t.Context(), pod, client.RawPatch(types.MergePatchType, body))); err != nil {
		c.t.Fatal(err)
	}
	return id
}

func (c *cluster) holders(pod *corev1.Pod) []podreadiness.Holder {
	c.t.Helper()
	holders, err := podreadiness.Holders(pod, apps.ConditionKruisePodReady)
	if err != nil {
		c.t.Fatal(err)
	}
	return holders
}

// told returns the reasons of the events about a request.
func (c *cluster) told(obj *object) (reasons []string) {
	c.t.Helper()
	var list corev1.EventList
	if err := c.List(c.t.Context(), &list, client.InNamespace(c.namespace)); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.UID == obj.UID {
			reasons = append(reasons, e.Reason+": "+e.Message)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// requests counts the manager's writes since an offset in the audit log, without events.
func (c *cluster) requests(offset int64) map[string]int {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), offset, "kruise-manager/")
	requests = slices.DeleteFunc(requests, func(r controllertest.Request) bool { return r.Resource == "events" })
	return controllertest.Tally(requests, c.namespace)
}

func unready(obj *object) {
	obj.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: new(int64(1))}
}

func deadline(n int64) func(*object) {
	return func(obj *object) { obj.Spec.ActiveDeadlineSeconds = &n }
}

func ttl(n int32) func(*object) {
	return func(obj *object) { obj.Spec.TTLSecondsAfterFinished = &n }
}
