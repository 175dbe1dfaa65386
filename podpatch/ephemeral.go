package podpatch

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ephemeral returns the request that adds ephemeral containers to a Pod, on condition that the Pod has not changed
// since it was read, for example by a label or a deletion. The API server refuses a name that exists already, unless
// the container is the same. So a request that is repeated after a lost response adds nothing.
func Ephemeral(pod *corev1.Pod, containers []corev1.EphemeralContainer) (Patches, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"spec":     map[string]any{"ephemeralContainers": containers},
	})
	if err != nil {
		return Patches{}, fmt.Errorf("encoding the ephemeral containers for Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return Patches{
		Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID,
		Requests: []Patch{{Subresource: "ephemeralcontainers", Body: body}},
	}, nil
}
