package podview_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/fakecri/podview"
)

// TestRequestsAddUp: a new stop request does not replace requests that the simulated kubelet has not handled yet, and
// requests for instances that no longer exist are removed. If the context of a caller ends, the caller's request
// stays in the annotation.
func TestRequestsAddUp(t *testing.T) {
	running := func(name, id string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}
	}
	client := fake.NewClientset(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u1", Annotations: map[string]string{controlplane.Stopped: `{"old":"sim://gone","log":"sim://b"}`}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "app"}, {Name: "log"}, {Name: "old"}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running("app", "sim://a"), running("log", "sim://b"), running("old", "sim://c")}},
	})
	view, err := podview.Start(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := view.Node("n1").Stop(ctx, "a", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	pod, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"app":"sim://a","log":"sim://b"}`, pod.Annotations[controlplane.Stopped]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
