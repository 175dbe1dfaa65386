package guard

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/reason"
)

// Protected is the protection of a Pod.
type Protected struct {
	// Budget is the budget of the Pod. Required: without a name the Pod is kept.
	Budget client.ObjectKey
	// OutOfService says that the Pod does not serve anyway, so nothing is lost with the Pod.
	OutOfService bool
}

// uncountedRetry is the wait in seconds of an eviction from an uncounted budget, as in the eviction API
// (pkg/registry/core/pod/storage/eviction.go).
const uncountedRetry = 10

// Handler returns the handler of a webhook that lets Pods go, or change, while their budgets have room: see ReviewOf
// for the rules of its configuration. of returns the protection of a Pod, and false for a Pod without a budget: an
// answer from a cache that is not filled yet would let every Pod go, so of must wait, or return an error. of must be
// safe for concurrent use. An eviction is refused as by the eviction API, with 429 and the cause DisruptionBudget, so
// that clients such as kubectl drain come again, other requests with 403. If nothing is known, because of a failed read
// or write, the answer is 429. The webhook needs sideEffects NoneOnDryRun.
func (g *Guard[O]) Handler(of func(ctx context.Context, pod *corev1.Pod) (Protected, bool, error)) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		status, err := g.handle(ctx, req, of)
		if err != nil { // nothing is known: the client comes again
			status = apierrors.NewTooManyRequests("the Pod or its budget could not be read: "+err.Error(), 1)
		}
		if status != nil {
			return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status.ErrStatus}}
		}
		return admission.Allowed("")
	})
}

// handle returns the refusal of a request, or nil. The HTTP status of an error must not be the answer: kubectl drain
// would take a 404 for the end of the Pod (pkg/drain/drain.go).
func (g *Guard[O]) handle(
	ctx context.Context, req admission.Request, of func(context.Context, *corev1.Pod) (Protected, bool, error),
) (*apierrors.StatusError, error) {
	if g == nil || g.statuses == nil || of == nil {
		return nil, errors.New("guard: a Handler needs a Guard made with New, and a function that names the budget of a Pod")
	}
	review, err := ReviewOf(ctx, g.live, req)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsBadRequest(status) {
		return status, nil
	}
	if err != nil || review.Pod == nil {
		return nil, err
	}
	protected, ok, err := of(ctx, review.Pod)
	if err != nil || !ok {
		return nil, err
	}
	request := disruption.Request{Pod: review.Pod, Operation: review.Operation, OutOfService: protected.OutOfService}
	decision, err := g.Ask(ctx, protected.Budget, request, review.DryRun)
	if err != nil || decision.Admitted {
		return nil, err
	}
	if review.Operation != disruption.Evict {
		resource := corev1.Resource("pods")
		return apierrors.NewForbidden(resource, review.Pod.Name, fmt.Errorf("budget %s: %w", protected.Budget, decision.Reason)), nil
	}
	return EvictionRefused("budget "+protected.Budget.String(), decision.Reason), nil
}

// EvictionRefused is the answer to an eviction for which a budget has no room, as by the eviction API: clients such as
// kubectl drain come again. budget is the kind and the name of the budget.
func EvictionRefused(budget string, why reason.Reason) *apierrors.StatusError {
	seconds := 0
	if why.Code == disruption.NotCounted {
		seconds = uncountedRetry
	}
	status := apierrors.NewTooManyRequests(fmt.Sprintf("Cannot evict Pod as it would violate %s.", budget), seconds)
	status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf("%s: %s", budget, why),
	})
	return status
}
