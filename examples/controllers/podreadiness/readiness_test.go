package podreadiness_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podreadiness/gatewriter"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var env = controlplanetest.NewShared(controlplane.Options{Nodes: 10, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const agent = "kruise-manager/test pod-readiness-controller"

type cluster struct {
	client.WithWatch
	t         *testing.T
	cp        *controlplane.ControlPlane
	namespace string
}

func start(t *testing.T) *cluster {
	t.Helper()
	cp := env.Start(t)
	c := &cluster{controllertest.Client(t, cp), t, cp, env.Namespace(t)}
	controllertest.Manager(t, cp, manager.Options{Namespace: c.namespace})
	return c
}

func (c *cluster) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}},
		},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func (c *cluster) create(name string, change func(*corev1.Pod)) *corev1.Pod {
	c.t.Helper()
	pod := c.pod(name, change)
	if err := c.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// until waits until want returns nil for a Pod.
func (c *cluster) until(pod *corev1.Pod, want func(*corev1.Pod) error) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		return want(pod)
	})
}

func ready(pod *corev1.Pod) error {
	if !podstate.IsReady(pod) {
		return fmt.Errorf("conditions %+v", pod.Status.Conditions)
	}
	return nil
}

func (c *cluster) requests(offset int64) map[string]int {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), offset, agent)
	return controllertest.Tally(requests, c.namespace)
}

// TestGatesAreOpened: a Pod without a controller gets the condition and becomes ready. The controller sends little
// more than one patch for each of a hundred Pods.
func TestGatesAreOpened(t *testing.T) {
	const pods = 100
	c := start(t)
	offset := controllertest.End(t, c.cp.AuditLog())
	var all []*corev1.Pod
	for i := range pods {
		all = append(all, c.create(fmt.Sprintf("web-%d", i), nil))
	}
	for _, pod := range all {
		c.until(pod, ready)
	}
	condition := podstate.Condition(all[0], apps.ConditionKruisePodReady)
	if condition == nil || condition.Status != corev1.ConditionTrue || condition.LastTransitionTime.IsZero() || condition.Message != "" {
		t.Errorf("PR-1 condition %+v, want True with a time", condition)
	}
	requests := c.requests(offset)
	t.Logf("requests of %d Pods: %v", pods, requests)
	if requests["patch pods/status"] != pods || len(requests) > 2 || requests["patch pods/status (409)"] > pods/10 {
		t.Errorf("PR-5 requests %v: want one patch of pods/status each, and conflicts at most", requests)
	}
}

// TestOthersAreLeftAlone: an existing condition KruisePodReady is not changed, whatever its value, and a Pod without
// the readiness gate gets no condition.
func TestOthersAreLeftAlone(t *testing.T) {
	c := start(t)
	offset := controllertest.End(t, c.cp.AuditLog())
	unscheduled := func(pod *corev1.Pod) { pod.Spec.SchedulerName = "nobody" }
	plain := c.create("plain", func(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil })
	other := c.create("other", func(pod *corev1.Pod) { pod.Spec.ReadinessGates[0].ConditionType = "example.com/Other" })
	last := c.create("last", unscheduled)
	c.until(last, func(pod *corev1.Pod) error {
		if podstate.Condition(pod, apps.ConditionKruisePodReady) == nil {
			return fmt.Errorf("conditions %+v", pod.Status.Conditions)
		}
		return nil
	})
	for _, pod := range []*corev1.Pod{plain, other} {
		c.until(pod, func(*corev1.Pod) error { return nil })
		if condition := podstate.Condition(pod, apps.ConditionKruisePodReady); condition != nil {
			t.Errorf("PR-3 %s has condition %+v", pod.Name, condition)
		}
	}
	writer, err := gatewriter.New(c, c, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	holder := podreadiness.Holder{UserAgent: "ContainerRecreateRequest", Key: c.namespace + "/crr-a"}
	if _, err := writer.Hold(t.Context(), last, apps.ConditionKruisePodReady, holder); err != nil {
		t.Fatal(err)
	}
	next := c.create("next", nil)
	c.until(next, ready) // by then the events of the earlier Pods were handled
	c.until(last, func(pod *corev1.Pod) error {
		condition := podstate.Condition(pod, apps.ConditionKruisePodReady)
		want := `[{"userAgent":"ContainerRecreateRequest","key":"` + c.namespace + `/crr-a"}]`
		if condition.Status != corev1.ConditionFalse || condition.Message != want {
			t.Errorf("PR-1 condition %+v: want it held", condition)
		}
		return nil
	})
	requests := c.requests(offset)
	if requests["patch pods/status"] != 2 {
		t.Errorf("requests %v: want those of two Pods", requests)
	}
}

// TestKindsOpenTheirOwn: the CloneSet controller opens the readiness gates of its own Pods, and this controller sends
// no request.
func TestKindsOpenTheirOwn(t *testing.T) {
	c := start(t)
	offset := controllertest.End(t, c.cp.AuditLog())
	labels := map[string]string{"app": "web"}
	template := c.pod("", nil)
	template.Spec.ReadinessGates = nil
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template.Spec},
		},
	}
	if err := c.Create(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(cs), cs); err != nil {
			return err
		}
		if cs.Status.ReadyReplicas != 3 {
			return fmt.Errorf("status %+v", cs.Status)
		}
		return nil
	})
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace(c.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if !podstate.IsTrue(&pods.Items[i], apps.ConditionKruisePodReady) {
			t.Errorf("Pod %s has no open gate: this test shows nothing", pods.Items[i].Name)
		}
	}
	if diff := cmp.Diff(map[string]int{}, c.requests(offset)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
