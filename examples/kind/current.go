package kind

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// OnceCurrent returns a step of the Pod webhook that first waits, for a limited time, until the caches that the step
// reads are up to date. If the caches are still stale after this time, the Pod is refused with status 503.
func OnceCurrent(step podwebhook.Mutator, current func(context.Context) error) podwebhook.Mutator {
	mutate := step.Mutate
	step.Mutate = func(ctx context.Context, pod *corev1.Pod, request *webhookadmission.Request) error {
		if err := current(ctx); err != nil {
			return apierrors.NewServiceUnavailable(err.Error())
		}
		return mutate(ctx, pod, request)
	}
	return step
}
