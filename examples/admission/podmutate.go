package admission

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// MutatePodPath is the path of reviews of Pods being created.
const MutatePodPath = "/mutate-pod"

// ValidatePodPath is the path of reviews of deletions, evictions, updates and resizes of Pods.
const ValidatePodPath = "/validate-pod"

// ValidateNewPodPath is the path of reviews about new Pods after all mutating webhooks.
const ValidateNewPodPath = "/validate-new-pod"

// Pods serves the webhooks for Pods. mutate, validate and comes return the handlers for the paths [MutatePodPath],
// [ValidatePodPath] and [ValidateNewPodPath]. The functions are called for each request, because the handlers are
// made later than the server. While a function returns nil, requests are refused, and the clients must try again.
func Pods(mutate, validate, comes func() admission.Handler) Endpoint {
	return podEndpoint{mutate, validate, comes}
}

type podEndpoint struct{ mutate, validate, comes handlerOfPods }

func (p podEndpoint) endpoint() endpoint {
	return endpoint{handlers: map[string]admission.Handler{MutatePodPath: p.mutate, ValidatePodPath: p.validate, ValidateNewPodPath: p.comes}}
}

// handlerOfPods returns a handler, or nil as long as the handler has not been made.
type handlerOfPods func() admission.Handler

// Handle implements admission.Handler.
func (h handlerOfPods) Handle(ctx context.Context, request admission.Request) admission.Response {
	handler := h()
	if handler == nil {
		return Refuse(ctx, apierrors.NewServiceUnavailable("the webhook for Pods is starting"))
	}
	return handler.Handle(ctx, request)
}

// ReadinessGate is the step of the Pod webhook that adds the readiness gate KruisePodReady to Pods of this project's
// kinds or, if the feature gate KruisePodReadinessGate is on, to all Pods. Several clients can keep this readiness
// gate closed at the same time.
func ReadinessGate(gates map[apps.Gate]bool) podwebhook.Mutator {
	return podwebhook.Mutator{Name: "readiness gate", Mutate: func(_ context.Context, pod *corev1.Pod, _ *admission.Request) error {
		if podstate.HasGate(pod, apps.ConditionKruisePodReady) || !gates[apps.GateKruisePodReadiness] && !isControlledHere(pod) {
			return nil
		}
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: apps.ConditionKruisePodReady})
		return nil
	}}
}

// isControlledHere reports whether the controller of a Pod is of a kind of this project, in any version.
func isControlledHere(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return false
	}
	gv, err := schema.ParseGroupVersion(strings.TrimSpace(ref.APIVersion))
	return err == nil && gv.Group == apps.Group
}
