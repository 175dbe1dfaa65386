package admission

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/disruption"
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
	pod, operation, dryRun, err := p.read(ctx, req)
	if err != nil {
		return refuse(ctx, unknownBudget(err))
	}
	if pod == nil {
		return admission.Allowed("")
	}
	answer, err := p.Ask(ctx, pod, operation, dryRun)
	if err != nil {
		return refuse(ctx, unknownBudget(err))
	}
	if answer.Admitted {
		return admission.Allowed("")
	}
	if !dryRun {
		p.tell(req, pod, operation, answer)
	}
	return refuse(ctx, refusedBy(operation, answer))
}

// read returns the Pod about to be taken out of service, and the operation. The Pod is nil for irrelevant requests.
func (p *podBudgets) read(ctx context.Context, req admission.Request) (pod *corev1.Pod, operation disruption.Operation, dryRun bool, err error) {
	dryRun = req.DryRun != nil && *req.DryRun
	switch {
	case req.Resource.Resource != "pods":
	case req.Operation == admissionv1.Create && req.SubResource == "eviction":
		pod, evictionDry, err := p.evicted(ctx, req)
		return pod, disruption.Evict, dryRun || evictionDry, err
	case req.Operation == admissionv1.Delete && req.SubResource == "":
		pod, err = podOf(req.OldObject.Raw)
		return pod, disruption.Delete, dryRun, err
	case req.Operation == admissionv1.Update && (req.SubResource == "" || req.SubResource == "resize"):
		pod, operation, err = updated(req)
		return pod, operation, dryRun, err
	}
	return nil, "", dryRun, nil
}

// updated returns a Pod from before an update, with the operation; nil if the update leaves the Pod in service.
// Removing its protection in the same update does not help a Pod past the budget.
func updated(req admission.Request) (*corev1.Pod, disruption.Operation, error) {
	before, err := podOf(req.OldObject.Raw)
	if before == nil || err != nil {
		return nil, "", err
	}
	after, err := podOf(req.Object.Raw)
	if after == nil || err != nil {
		return nil, "", err
	}
	if operation, changed := disruption.OperationOf(before, after); changed {
		return before, operation, nil
	}
	if budgets.Marked(before, after) {
		return before, disruption.Update, nil
	}
	return nil, "", nil
}

func podOf(raw []byte) (*corev1.Pod, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // API servers of old say nothing of what is deleted.
	}
	pod := &corev1.Pod{}
	if err := decode.Object(raw, pod); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding the Pod: %v", err))
	}
	return pod, nil
}

// evicted returns the present Pod of an eviction, or nil if the Pod is gone or is not the eviction's Pod: the API
// server says so. The API server's check of a resourceVersion is unknown: an empty version stands for any, and the Pod
// may change until then.
func (p *podBudgets) evicted(ctx context.Context, req admission.Request) (pod *corev1.Pod, dryRun bool, err error) {
	eviction := &policyv1.Eviction{}
	if len(req.Object.Raw) > 0 {
		if err := decode.Object(req.Object.Raw, eviction); err != nil {
			return nil, false, apierrors.NewBadRequest(fmt.Sprintf("decoding the eviction: %v", err))
		}
	}
	if p.options.Reader == nil {
		return nil, false, nil
	}
	pod = &corev1.Pod{}
	if err := p.options.Reader.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, pod); apierrors.IsNotFound(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("reading Pod %s/%s: %w", req.Namespace, req.Name, err)
	}
	options := eviction.DeleteOptions
	if options == nil {
		return pod, false, nil
	}
	if only := options.Preconditions; only != nil && only.UID != nil && *only.UID != pod.UID {
		return nil, false, nil
	}
	return pod, slices.Contains(options.DryRun, metav1.DryRunAll), nil
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

// uncountedRetry is the wait in seconds of an eviction with an uncounted budget, as in the eviction API.
const uncountedRetry = 10

// refusedBy is the answer to a request refused by a budget.
func refusedBy(operation disruption.Operation, answer budgets.Answer) error {
	if operation != disruption.Evict {
		return apierrors.NewForbidden(budgetResource(), answer.Budget, answer.Reason)
	}
	seconds := 0
	if answer.Reason.Code == disruption.NotCounted {
		seconds = uncountedRetry
	}
	err := apierrors.NewTooManyRequests(fmt.Sprintf("Cannot evict Pod as it would violate PodUnavailableBudget %s.", answer.Budget), seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf("PodUnavailableBudget %s: %s", answer.Budget, answer.Reason),
	})
	return err
}

// unknownBudget is the answer for an unknown budget: retry.
func unknownBudget(err error) error {
	if apierrors.IsBadRequest(err) {
		return err
	}
	return apierrors.NewTooManyRequests("the Pod or its PodUnavailableBudget could not be read: "+err.Error(), 1)
}
