package faultapi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestEphemeralContainers: a kubelet starts an ephemeral container once, reports its end, and does not start a
// container with a broken image.
func TestEphemeralContainers(t *testing.T) {
	server, err := faultapi.New(newScheme(t), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c, nodes := server.Client(nil, nil), server.Nodes()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	nodes.Settle()
	nodes.Images.SetBroken("tool:broken", true)
	patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"ephemeralContainers":[{"name":"a","image":"tool:v1"},{"name":"b","image":"tool:broken"}]}}`))
	if err := c.SubResource("ephemeralcontainers").Patch(t.Context(), pod, patch); err != nil {
		t.Fatal(err)
	}
	states := func() []string {
		nodes.Settle()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		out := []string{string(pod.Status.Phase)}
		for i := range pod.Status.EphemeralContainerStatuses {
			s := &pod.Status.EphemeralContainerStatuses[i]
			switch {
			case s.State.Running != nil && !s.Ready:
				out = append(out, s.Name+" runs")
			case s.State.Terminated != nil:
				out = append(out, s.Name+" ended: "+s.State.Terminated.Reason)
			case s.State.Waiting != nil:
				out = append(out, s.Name+" waits: "+s.State.Waiting.Reason)
			}
		}
		return out
	}
	if diff := cmp.Diff([]string{"Running", "a runs", "b waits: ImagePullBackOff"}, states()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !nodes.Exit(pod.UID, "a", 3) {
		t.Error("the container did not run")
	}
	want := []string{"Running", "a ended: Error", "b waits: ImagePullBackOff"}
	for range 2 {
		if diff := cmp.Diff(want, states()); diff != "" {
			t.Errorf("after the end (-want +got):\n%s", diff)
		}
	}
	if podReady := pod.Status.ContainerStatuses[0].Ready; !podReady {
		t.Error("the Pod is not ready because of an ephemeral container")
	}
}
