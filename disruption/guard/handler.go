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

// Protected says how a budget protects a Pod.
type Protected struct {
	// Budget is the key of the Pod's budget. Required: if the name is empty, the Pod must not be taken out of service.
	Budget client.ObjectKey
	// OutOfService says that the Pod is out of service already, so its loss costs the budget nothing.
	OutOfService bool
}

// uncountedRetry is the Retry-After, in seconds, for an eviction from an uncounted budget, as in the eviction API
// (pkg/registry/core/pod/storage/eviction.go).
const uncountedRetry = 10

// Handler returns a webhook's handler that admits deletions, evictions and changes of Pods as far as budgets allow:
// see ReviewOf for the rules of its configuration. The argument named of is a function that returns how a Pod is
// protected, or false if the Pod has no budget. The function must wait until its cache is synced, or return an error:
// a result from an unsynced cache could admit the deletion of every Pod. The function must be safe for concurrent
// use. A refused eviction gets the eviction API's response, 429 with the cause DisruptionBudget, so that clients such
// as kubectl drain retry; other refused requests get 403. If a read or write fails, the response is 429. The webhook
// needs sideEffects NoneOnDryRun.
func (g *Guard[O]) Handler(of func(ctx context.Context, pod *corev1.Pod) (Protected, bool, error)) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		status, err := g.handle(ctx, req, of)
		if err != nil { // nobody knows whether the budget admits the request, so the client must retry
			status = apierrors.NewTooManyRequests("the Pod or its budget could not be read: "+err.Error(), 1)
		}
		if status != nil {
			return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status.ErrStatus}}
		}
		return admission.Allowed("")
	})
}

// handle returns the refusal of a request, or nil. The response must not carry the HTTP status of an internal error:
// kubectl drain would conclude from a 404 that the Pod was deleted (pkg/drain/drain.go).
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

// EvictionRefused is the response to an eviction that would exceed a budget, as by the eviction API: clients such as
// kubectl drain retry. budget is the kind and the name of the budget.
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
