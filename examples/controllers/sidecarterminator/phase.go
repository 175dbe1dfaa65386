package sidecarterminator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// setPhase sets the phase of a Pod whose last sidecars still run. When the kubelet sees the phase, the kubelet stops
// the sidecars and does not change the phase any more. Before, the kubelet may overwrite the phase every ten seconds
// (pkg/kubelet/status/status_manager.go). If the Pod has changed since it was read, the patch fails with a conflict,
// because another phase may be right for the changed Pod.
func setPhase(ctx context.Context, c client.Client, pod *corev1.Pod, phase corev1.PodPhase, now time.Time) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status": map[string]any{"phase": phase, "conditions": []map[string]any{{
			"type": apps.ConditionSidecarTerminated, "status": corev1.ConditionTrue, "reason": apps.ConditionSidecarTerminated,
			"message": "Terminated by Sidecar Terminator", "lastTransitionTime": metav1.NewTime(now),
		}}},
	})
	if err != nil {
		return fmt.Errorf("encoding the phase: %w", err)
	}
	live := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return c.Status().Patch(ctx, live, client.RawPatch(types.StrategicMergePatchType, body))
}
