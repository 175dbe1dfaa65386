package cause_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workloadkit/workloadkit/examples/cli/cause"
)

// A CloneSet waits, because the only Pod cannot pull its image.
func ExampleOf() {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-x7k2p"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Image: "example.test/app:v2",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}},
	}}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": map[string]any{"namespace": "default", "name": "web"},
		"spec": map[string]any{"replicas": int64(1)},
	}}
	for _, c := range cause.Of(cause.Facts{Object: set, Pods: []corev1.Pod{pod}, Now: time.Unix(0, 0)}) {
		fmt.Println(c.Layer, c.Reason)
	}
	// Output:
	// runtime ImagePullBackOff: Pod default/web-x7k2p: container app: not found (image example.test/app:v2); an image that the Node can pull, or credentials for the registry
}
