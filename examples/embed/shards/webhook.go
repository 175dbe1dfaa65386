package shards

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
)

// Handle answers for the Pods of Shards: a Pod that serves goes, or changes, while the budget has room. A caller that
// evicts Pods tries again.
func (r *reconciler) Handle(ctx context.Context, req admission.Request) admission.Response {
	review, err := guard.ReviewOf(ctx, r.Cache.APIReader(), req)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if review.Pod == nil {
		return admission.Allowed("")
	}
	owner := metav1.GetControllerOf(review.Pod)
	if owner == nil || owner.Kind != "Shards" || owner.APIVersion != GroupVersion.String() {
		return admission.Allowed("")
	}
	request := disruption.Request{Pod: review.Pod, Operation: review.Operation, OutOfService: !r.serves(review.Pod)}
	decision, err := r.budget.Ask(ctx, client.ObjectKey{Namespace: req.Namespace, Name: owner.Name}, request, review.DryRun)
	switch {
	case err != nil: // nothing is known, so the Pod stays
		return admission.Errored(http.StatusInternalServerError, err)
	case decision.Admitted:
		return admission.Allowed("")
	}
	refused := admission.Denied(decision.Reason.String())
	refused.Result.Code, refused.Result.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	return refused
}
