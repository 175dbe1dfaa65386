package podunavailablebudget

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	budgetguard "github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// eventPrevented is the name of the event on a Pod for which a budget has refused a request.
const eventPrevented = "PubPreventPodDeletion"

// Handler returns a handler of requests that take Pods out of service: deletions and evictions of Pods, changes of
// their specs, and resizes. A request is refused if more Pods would be unavailable than their PodUnavailableBudget
// allows. A refused eviction gets the response of the eviction API, 429 with a cause, so that clients retry. Any
// other refused request gets 403. options.Reader reads the Pods of evictions, and must not be a cache: with an
// outdated Pod, the eviction of a Pod in service could be admitted without being counted.
func (b *Budgets) Handler(options admission.Options) webhookadmission.Handler {
	return &podBudgets{b, options}
}

type podBudgets struct {
	*Budgets

	options admission.Options
}

// Handle implements webhookadmission.Handler.
func (p *podBudgets) Handle(ctx context.Context, req webhookadmission.Request) webhookadmission.Response {
	review, err := p.review(ctx, req)
	if err != nil {
		return admission.Refuse(ctx, unknownBudget(err))
	}
	if review.Pod == nil {
		return webhookadmission.Allowed("")
	}
	answer, err := p.Ask(ctx, review.Pod, review.Operation, review.DryRun)
	if err != nil {
		return admission.Refuse(ctx, unknownBudget(err))
	}
	if answer.Admitted {
		return webhookadmission.Allowed("")
	}
	if !review.DryRun {
		p.tell(req, review.Pod, review.Operation, answer)
	}
	return admission.Refuse(ctx, refusedBy(review.Operation, answer))
}

// review parses the request. If an update removes the labels or annotations by which budgets protect the Pod, the
// budgets of the Pod before the update decide.
func (p *podBudgets) review(ctx context.Context, req webhookadmission.Request) (budgetguard.Review, error) {
	review, err := budgetguard.ReviewOf(ctx, p.options.Reader, req)
	if err == nil && review.Pod == nil && review.After != nil && marked(review.Before, review.After) {
		review.Pod, review.Operation = review.Before, disruption.Update
	}
	return review, err
}

// tell reports a refusal: by an event on the Pod, and by a call of options.Refused.
func (p *podBudgets) tell(req webhookadmission.Request, pod *corev1.Pod, operation disruption.Operation, answer Answer) {
	if p.Events != nil {
		p.Events.Eventf(pod, corev1.EventTypeWarning, eventPrevented, "PodUnavailableBudget %s refuses %s: %s", answer.Budget, operation, answer.Reason.Detail)
	}
	if p.options.Refused == nil {
		return
	}
	refusal := admission.Refusal{Event: admission.EventPodUnavailableBudget, Kind: "unknown", Namespace: pod.Namespace, Name: pod.Name, User: req.UserInfo.Username}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		refusal.Kind, refusal.Name = owner.Kind, owner.Name
	}
	p.options.Refused(refusal)
}

// Mutator returns the step of the Pod webhook that writes the names of a new Pod's PodUnavailableBudgets into the
// Pod's annotations.
func (b *Budgets) Mutator() podwebhook.Mutator {
	return podwebhook.Mutator{Name: "PodUnavailableBudget", Mutate: func(_ context.Context, pod *corev1.Pod, _ *webhookadmission.Request) error {
		b.Stamp(pod)
		return nil
	}}
}

// budgetResource is the resource that refusals name.
func budgetResource() schema.GroupResource {
	return schema.GroupResource{Group: policy.Group, Resource: "podunavailablebudgets"}
}

// refusedBy returns the error for a request that a budget has refused.
func refusedBy(operation disruption.Operation, answer Answer) error {
	if operation != disruption.Evict {
		return apierrors.NewForbidden(budgetResource(), answer.Budget, answer.Reason)
	}
	return budgetguard.EvictionRefused("PodUnavailableBudget "+answer.Budget, answer.Reason)
}

// unknownBudget returns the error for a request that cannot be decided because the budgets are unknown: clients must
// retry.
func unknownBudget(err error) error {
	if apierrors.IsBadRequest(err) {
		return err
	}
	return apierrors.NewTooManyRequests("the Pod or its PodUnavailableBudget could not be read: "+err.Error(), 1)
}
