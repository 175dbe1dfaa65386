package podpatch

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ephemeral returns the request that adds ephemeral containers to a Pod, if the Pod is as seen: neither relabelled nor
// deleted since, for example. The API server refuses a present name, unless the container is the same. So a request
// sent again after a lost answer adds nothing.
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
