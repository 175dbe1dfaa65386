package podpatch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
)

func TestEphemeral(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web-0", UID: "u", ResourceVersion: "7"}}
	got, err := podpatch.Ephemeral(pod, []corev1.EphemeralContainer{{TargetContainerName: "app", EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "a", Image: "tool:v1"}}})
	if err != nil || got.UID != "u" || got.Pod.String() != "n/web-0" || len(got.Requests) != 1 || got.Requests[0].Subresource != "ephemeralcontainers" {
		t.Fatalf("%+v, %v", got, err)
	}
	const want = `{"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"ephemeralContainers":[{"name":"a","image":"tool:v1","resources":{},"targetContainerName":"app"}]}}`
	if diff := cmp.Diff(want, string(got.Requests[0].Body)); diff != "" {
		t.Errorf("EJ-4 (-want +got):\n%s", diff)
	}
}
