package execute_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/cli/execute"
)

func TestWorking(t *testing.T) {
	tests := []struct{ name, annotation, sidecar, fallback, want string }{
		{"KC-30 the working container of a hot upgrade", `{"envoy":"envoy-2"}`, "envoy", "", "envoy-2"},
		{"a sidecar that is not upgraded hot", "", "log", "", "log"},
		{"KC-30 an unknown name, with a container", `{"envoy":"envoy-2"}`, "none", "log", "log"},
		{"KC-30 an unknown name", "", "none", "", "app"},
		{"an annotation that cannot be read", "{", "envoy", "", "app"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kruise.io/sidecarset-working-hotupgrade-container": tt.annotation}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}, {Name: "log"}}},
			}
			if got := execute.Working(pod, tt.sidecar, tt.fallback); got != tt.want {
				t.Errorf("container %s, want %s", got, tt.want)
			}
		})
	}
}
