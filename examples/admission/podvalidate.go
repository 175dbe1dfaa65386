package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	budgetguard "github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/budgets"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// ValidatePodPath is the path of reviews about deletion, eviction, update and resize of Pods.
const ValidatePodPath = "/validate-pod"

// EventPodUnavailableBudget is the event of requests refused by a PodUnavailableBudget.
const EventPodUnavailableBudget = "PodUnavailableBudget"

// eventPrevented is the event of a Pod kept by a budget.
const eventPrevented = "PubPreventPodDeletion"

// PodBudgets refuses requests that would take more Pods out of service than allowed by their PodUnavailableBudget:
// deletions and evictions of Pods, changes of their specs, and resizes. Evictions are refused as by the eviction API,
// with 429 and a cause, so clients retry; the rest with 403. options.Reader reads the Pods of evictions, and must not
// be a cache: a late cache could let a serving Pod go for nothing.
func PodBudgets(asked *budgets.Budgets, events record.EventRecorder, options Options) admission.Handler {
	return &podBudgets{asked, events, options}
}

type podBudgets struct {
	*budgets.Budgets

	events  record.EventRecorder
	options Options
}

// Handle implements admission.Handler.
func (p *podBudgets) Handle(ctx context.Context, req admission.Request) admission.Response {
	review, err := p.review(ctx, req)
	if err != nil {
		return refuse(ctx, unknownBudget(err))
	}
	if review.Pod == nil {
		return admission.Allowed("")
	}
	answer, err := p.Ask(ctx, review.Pod, review.Operation, review.DryRun)
	if err != nil {
		return refuse(ctx, unknownBudget(err))
	}
	if answer.Admitted {
		return admission.Allowed("")
	}
	if !review.DryRun {
		p.tell(req, review.Pod, review.Operation, answer)
	}
	return refuse(ctx, refusedBy(review.Operation, answer))
}

// review reads the request. Removing its protection in an update does not help a Pod past the budget.
func (p *podBudgets) review(ctx context.Context, req admission.Request) (budgetguard.Review, error) {
	review, err := budgetguard.ReviewOf(ctx, p.options.Reader, req)
	if err == nil && review.Pod == nil && review.After != nil && budgets.Marked(review.Before, review.After) {
		review.Pod, review.Operation = review.Before, disruption.Update
	}
	return review, err
}

// tell reports a refusal: by an event of the Pod, and to options.Refused.
func (p *podBudgets) tell(req admission.Request, pod *corev1.Pod, operation disruption.Operation, answer budgets.Answer) {
	if p.events != nil {
		p.events.Eventf(pod, corev1.EventTypeWarning, eventPrevented, "PodUnavailableBudget %s refuses %s: %s", answer.Budget, operation, answer.Reason.Detail)
	}
	if p.options.Refused == nil {
		return
	}
	refusal := Refusal{Event: EventPodUnavailableBudget, Kind: "unknown", Namespace: pod.Namespace, Name: pod.Name, User: req.UserInfo.Username}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		refusal.Kind, refusal.Name = owner.Kind, owner.Name
	}
	p.options.Refused(refusal)
}

// RelatedBudget is the step that writes the names of their PodUnavailableBudgets on Pods.
func RelatedBudget(asked *budgets.Budgets) podwebhook.Step {
	return podwebhook.Step{Name: "PodUnavailableBudget", Mutate: func(_ context.Context, pod *corev1.Pod, _ *admission.Request) error {
		asked.Stamp(pod)
		return nil
	}}
}

// budgetResource is the resource named by refusals.
func budgetResource() schema.GroupResource {
	return schema.GroupResource{Group: policy.Group, Resource: "podunavailablebudgets"}
}

// refusedBy is the answer to a request refused by a budget.
func refusedBy(operation disruption.Operation, answer budgets.Answer) error {
	if operation != disruption.Evict {
		return apierrors.NewForbidden(budgetResource(), answer.Budget, answer.Reason)
	}
	return budgetguard.EvictionRefused("PodUnavailableBudget "+answer.Budget, answer.Reason)
}

// unknownBudget is the answer for an unknown budget: retry.
func unknownBudget(err error) error {
	if apierrors.IsBadRequest(err) {
		return err
	}
	return apierrors.NewTooManyRequests("the Pod or its PodUnavailableBudget could not be read: "+err.Error(), 1)
}
