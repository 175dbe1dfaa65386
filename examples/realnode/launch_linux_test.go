package realnode_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// launchDelay is the delay of a container's first readiness probe in seconds, so that "started" and "ready" differ.
const launchDelay = 2

// TestLaunchOrder: the kubelet starts the containers in the order that the Pod requests. Each container starts when
// the previous container is ready.
func TestLaunchOrder(t *testing.T) {
	f := startManager(t, manager.Options{})
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		order  []string // of the containers first, second and third
	}{
		{
			"E-3 in the order of the list", func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{apps.AnnotationLaunchPriority: apps.LaunchPriorityOrdered}
			}, []string{"first", "second", "third"},
		},
		{
			"E-4 by number", func(pod *corev1.Pod) {
				for i, priority := range []string{"-1", "0", "5"} {
					c := &pod.Spec.Containers[i]
					c.Env = append(c.Env, corev1.EnvVar{Name: apps.EnvContainerPriority, Value: priority})
				}
			}, []string{"third", "second", "first"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			own := *f
			own.t = t
			own.launch(tc.change, tc.order)
		})
	}
}

// TestLaunchBarrierComesBack: a container with a launch priority starts only if a ConfigMap has the container's key.
// When the kubelet restarts the container, the kubelet reads the ConfigMap again. If the ConfigMap was deleted, the
// controller creates the ConfigMap again.
func TestLaunchBarrierComesBack(t *testing.T) {
	f := startManager(t, manager.Options{})
	pod := f.launch(func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{apps.AnnotationLaunchPriority: apps.LaunchPriorityOrdered}
	}, []string{"first", "second", "third"})
	barrier := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: pod.Name + "-barrier"}}
	if err := f.Delete(t.Context(), barrier); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	before := podstate.ContainerStatus(pod, "second").ContainerID
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"second","image":%q}]}}`, f.image("v2"))
	if err := f.Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, 2*within, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if status := podstate.ContainerStatus(pod, "second"); !podstate.IsReady(pod) || status.ContainerID == before {
			return fmt.Errorf("%+v: %w", status.State, f.troubles(ctx))
		}
		return nil
	})
	t.Logf("ready again after %v", time.Since(begin).Round(time.Second))
}

// launch creates a Pod that the webhook changes, and watches how the containers start.
func (f *fixture) launch(change func(*corev1.Pod), order []string) *corev1.Pod {
	f.t.Helper()
	recorder := controllertest.Watch(f.t, f, f.namespace, nil)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, GenerateName: "launch-"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), DNSPolicy: corev1.DNSDefault,
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	for i, name := range []string{"first", "second", "third"} {
		c := f.container(name, 8080+i)
		c.ReadinessProbe.InitialDelaySeconds = launchDelay
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	change(pod)
	launchOrder, err := kruise.LaunchOrder()
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := launchOrder.Inject(pod, "launch-"+order[0]); err != nil {
		f.t.Fatal(err)
	}
	if err := f.Create(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	controlplanetest.Eventually(f.t, 2*within, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if !podstate.IsReady(pod) || pod.Annotations[apps.AnnotationLaunchPriorityCompleted] != "true" {
			return fmt.Errorf("annotations %v: %w", pod.Annotations, f.troubles(ctx))
		}
		return nil
	})
	started := func(name string) time.Time { return podstate.ContainerStatus(pod, name).State.Running.StartedAt.Time }
	for i, name := range order {
		f.t.Logf("%s started at %s", name, started(name).Format(time.TimeOnly))
		// The kubelet reports times in whole seconds.
		if i > 0 && started(name).Sub(started(order[i-1])) < (launchDelay-1)*time.Second {
			f.t.Errorf("%s started %s after %s, which needs %d s to be ready", name, started(name).Sub(started(order[i-1])), order[i-1], launchDelay)
		}
		if restarts := podstate.ContainerStatus(pod, name).RestartCount; restarts != 0 {
			f.t.Errorf("%s was restarted %d times", name, restarts)
		}
	}
	for _, event := range recorder.Events() {
		for i := 1; i < len(order) && event.Pod.UID == pod.UID; i++ {
			above, below := podstate.ContainerStatus(event.Pod, order[i-1]), podstate.ContainerStatus(event.Pod, order[i])
			if below != nil && below.State.Running != nil && !above.Ready {
				f.t.Errorf("%s ran when %s was not ready", below.Name, above.Name)
			}
		}
	}
	return pod
}
