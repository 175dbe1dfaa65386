package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// announcedSidecars creates the objects of OpenKruise's release announcements through the webhooks, and checks which
// sidecars the Pods get and when containers restart.
func announcedSidecars(t *testing.T, c *cluster, _ *process) {
	t.Run("E-8 C-7 C-9", func(t *testing.T) {
		c := c.on(t)
		c.create("testdata/sidecarset-volume.yaml")
		pod := c.untilInjectedPod("nginx", "sidecar1")
		sidecar := pod.Spec.Containers[0]
		if sidecar.Name != "sidecar1" || sidecar.Env[0] != (corev1.EnvVar{Name: "IS_INJECTED", Value: "true"}) || sidecar.ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("SC-17 SC-21 the sidecar is not in front: %+v", sidecar)
		}
		if podVolume(pod, "log-volume") == nil || pod.Annotations[apps.AnnotationSidecarSetInjected] != "test-sidecarset" {
			t.Errorf("SC-16 SC-24 volumes %+v, annotations %v", pod.Spec.Volumes, pod.Annotations)
		}
		c.upgrade("test-sidecarset", func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = "centos:7" })
		c.untilRestarted(pod, map[string]int32{"sidecar1": 1, "app": 0})
		c.drop("test-sidecarset", "nginx")
	})
	t.Run("E-10 D-4 D-22", func(t *testing.T) {
		c := c.on(t)
		c.create("testdata/sidecarset-native.yaml")
		pod := c.untilInjectedPod("sample", "sidecar")
		if len(pod.Spec.InitContainers) != 1 || !podstate.IsNativeSidecar(&pod.Spec.InitContainers[0]) || pod.Spec.InitContainers[0].Lifecycle == nil {
			t.Errorf("SC-40 init containers %+v", pod.Spec.InitContainers)
		}
		c.upgrade("sidecarset", func(s *v1beta1.SidecarSetSpec) {
			s.UpdateStrategy.Type, s.InitContainers[0].Image = "RollingUpdate", "nginx:1.27-alpine"
		})
		c.untilRestarted(pod, map[string]int32{"sidecar": 1, "app": 0})
		c.drop("sidecarset", "sample")
	})
	t.Run("E-3 A-9", func(t *testing.T) {
		c := c.on(t)
		pod := c.create("testdata/launch-ordered.yaml")
		if diff := cmp.Diff(map[string]string{"sidecar": "ordered-barrier p_0", "main": "ordered-barrier p_-1"}, c.barriers(pod.GetName())); diff != "" {
			t.Errorf("LP-3 barriers (-want +got):\n%s", diff)
		}
		c.untilCompleted(pod.GetName())
	})
	t.Run("E-4 E-11 A-10 D-6", func(t *testing.T) {
		c := c.on(t)
		pod := c.create("testdata/job-sidecar.yaml")
		if diff := cmp.Diff(map[string]string{"sidecar": "job-sidecar-barrier p_1", "main": "job-sidecar-barrier p_0"}, c.barriers(pod.GetName())); diff != "" {
			t.Errorf("LP-4 barriers (-want +got):\n%s", diff)
		}
		c.untilCompleted(pod.GetName())
	})
}

// create creates the object of a file.
func (c *cluster) create(path string) *unstructured.Unstructured {
	c.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &object.Object); err != nil {
		c.t.Fatal(err)
	}
	if object.GetKind() == "Pod" {
		object.SetNamespace(namespace)
	}
	if err := c.Create(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
	return object
}

// untilInjectedPod creates one Pod after the other until a Pod gets the sidecar, because the webhook learns of a new
// SidecarSet with a delay.
func (c *cluster) untilInjectedPod(app, sidecar string) *corev1.Pod {
	c.t.Helper()
	var pod *corev1.Pod
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: app + "-", Labels: map[string]string{"app": app}}}
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
		if err := c.Create(ctx, pod); err != nil {
			return err
		}
		if podstate.Container(pod, sidecar) == nil {
			return errors.Join(errors.New("the sidecar is not injected yet"), c.Delete(ctx, pod))
		}
		return nil
	})
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if !podstate.IsReady(pod) {
			return fmt.Errorf("Pod %s is not ready", pod.Name)
		}
		return nil
	})
	return pod
}

// upgrade edits a SidecarSet.
func (c *cluster) upgrade(name string, edit func(*v1beta1.SidecarSetSpec)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		set := &v1beta1.SidecarSet{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, set); err != nil {
			return err
		}
		edit(&set.Spec)
		return c.Update(ctx, set)
	})
}

// untilRestarted waits until the containers of a Pod were restarted so many times, and the Pod is ready.
func (c *cluster) untilRestarted(pod *corev1.Pod, want map[string]int32) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		got := map[string]int32{}
		for name := range want {
			got[name] = podstate.ContainerStatus(pod, name).RestartCount
		}
		if diff := cmp.Diff(want, got); diff != "" || !podstate.IsReady(pod) {
			return fmt.Errorf("restarts (-want +got):\n%s", diff)
		}
		return nil
	})
}

// drop deletes a SidecarSet, and waits until new Pods no longer get its sidecars.
func (c *cluster) drop(name, app string) {
	c.t.Helper()
	if err := c.Delete(c.t.Context(), &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: app + "-", Labels: map[string]string{"app": app}}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
		if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > 1 {
			return errors.New("the sidecar is injected still")
		}
		return nil
	})
}

// barriers returns, for each container of a Pod, the ConfigMap and the key without which the container does not
// start.
func (c *cluster) barriers(name string) map[string]string {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for i := range pod.Spec.Containers {
		for _, env := range pod.Spec.Containers[i].Env {
			if env.ValueFrom != nil && env.ValueFrom.ConfigMapKeyRef != nil {
				out[pod.Spec.Containers[i].Name] = strings.TrimSpace(env.ValueFrom.ConfigMapKeyRef.Name + " " + env.ValueFrom.ConfigMapKeyRef.Key)
			}
		}
	}
	return out
}

// untilCompleted waits until the controller has opened the barriers of all containers of a Pod.
func (c *cluster) untilCompleted(name string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
			return err
		}
		if pod.Annotations[apps.AnnotationLaunchPriorityCompleted] != "true" {
			return fmt.Errorf("annotations %v", pod.Annotations)
		}
		return nil
	})
}

func podVolume(pod *corev1.Pod, name string) *corev1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}
