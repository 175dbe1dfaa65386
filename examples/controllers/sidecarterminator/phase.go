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

// setPhase sets the phase of a Pod whose last sidecars still run. When the kubelet receives the phase, the kubelet
// stops the sidecars and keeps the phase. Until the kubelet receives the phase, the kubelet may overwrite the phase
// every ten seconds (pkg/kubelet/status/status_manager.go). If the Pod has changed since the read, the patch fails with
// a conflict, because a different phase may be right by now.
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
