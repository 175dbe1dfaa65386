package podunavailablebudget

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a request for a Pod is admitted although no budget has decided about the request.
const (
	// NoBudget means that the Pod has no budget.
	NoBudget reason.Code = "NoBudget"
	// NotCovered means that the budget does not cover the operation, or ignores Pods with the Pod's labels.
	NotCovered reason.Code = "NotCovered"
	// NotProtected means that an annotation of the Pod excludes the Pod from all budgets.
	NotProtected reason.Code = "NotProtected"
)

// TooManyBudgets means that the Pod has more than mostOfPod budgets. The request is refused, and no budget decides.
const TooManyBudgets reason.Code = "TooManyBudgets"

// Answer is the answer to a request to take a Pod out of service.
type Answer struct {
	disruption.Decision

	// Budget is the name of the budget that has decided about the request, or "" if no budget has decided. If several
	// budgets have decided, Budget is the budget that has refused the request.
	Budget string
}

// Budgets decides whether a Pod may be taken out of service. Budgets is safe for concurrent use. Make Budgets with New.
type Budgets struct {
	*finder
	*workloads.Owners
	*Serving

	// Current waits until the cache of budgets is up to date, and returns an error if the context ends first. If
	// Current returns an error, budgets are read from the API server. Current is nil if the cache is always up to
	// date.
	Current func(context.Context) error
	// Events receives an event on each Pod for which a budget has refused a request. Optional.
	Events record.EventRecorder

	live  client.Reader
	guard *guard.Guard[*v1beta1.PodUnavailableBudget]
	gates map[apps.Gate]bool
	clock clock.PassiveClock
}

// New returns Budgets that read from the manager's cache and write with c. Call New once for each manager, before the
// manager is started. A nil gates means the default gates; a nil now means the real clock.
func New(ctx context.Context, mgr ownercache.Manager, c client.Client, gates map[apps.Gate]bool, now clock.PassiveClock) (*Budgets, error) {
	return newBudgets(ctx, mgr, c, gates, now, newShares())
}

func newBudgets(
	ctx context.Context, mgr ownercache.Manager, c client.Client, gates map[apps.Gate]bool, now clock.PassiveClock, shares *shares,
) (*Budgets, error) {
	if gates == nil {
		gates = apps.DefaultGates()
	}
	b := &Budgets{live: mgr.GetAPIReader(), gates: gates, clock: now}
	if now == nil {
		b.clock = clock.RealClock{}
	}
	var err error
	if b.Owners, err = workloads.NewOwners(ctx, mgr, c, b.clock); err != nil {
		return nil, err
	}
	if b.finder, err = newFinder(ctx, mgr.GetCache(), b.Owners); err != nil {
		return nil, err
	}
	if b.Serving, err = NewServing(gates); err != nil {
		return nil, err
	}
	b.guard, err = guard.New(c, mgr.GetAPIReader(), &v1beta1.PodUnavailableBudget{}, guard.Config[*v1beta1.PodUnavailableBudget]{
		Ledger: shares.ledger, Store: shares.store, Clock: b.clock,
	})
	return b, err
}

// Ask decides whether the operation may take the Pod out of service. All budgets of the Pod must admit the operation.
// If dryRun is false, an admitted operation is counted against the budgets where needed. The caller must pass the
// present state of the Pod: with an outdated state in which the Pod is out of service, the operation would be
// admitted without being counted. If Ask returns an error, Ask has not decided, and the caller must not take the Pod
// out of service.
func (b *Budgets) Ask(ctx context.Context, pod *corev1.Pod, operation disruption.Operation, dryRun bool) (Answer, error) {
	return b.ask(ctx, pod, operation, dryRun, askWaits, false)
}

const (
	// askWaits is how long Ask waits for the cache of budgets to be up to date. Then budgets are read from the API
	// server.
	askWaits = time.Second
	// permitWaits is how long Permit waits for the cache; the time is short because a controller has other Pods to
	// handle.
	permitWaits = 50 * time.Millisecond
)

func (b *Budgets) ask(ctx context.Context, pod *corev1.Pod, operation disruption.Operation, dryRun bool, patience time.Duration, gated bool) (Answer, error) {
	free := func(code reason.Code, budget, detail string) (Answer, error) {
		why := reason.Reason{Code: code, Object: reason.ObjectOf("Pod", pod), Detail: detail}
		return Answer{disruption.Decision{Admitted: true, Reason: why}, budget}, nil
	}
	if !isOn(b.gates, operation) {
		return free(NotCovered, "", "the feature gate for it is off")
	}
	if !podstate.IsActive(pod) { // a kubelet may delete a terminating Pod, and every client an ended Pod
		return free(disruption.NotServing, "", "it terminates or has ended")
	}
	all, err := b.of(ctx, pod, operation, patience)
	if err != nil {
		return Answer{}, err
	}
	if len(all) == 0 {
		return free(NoBudget, "", "no budget is for it")
	}
	serves, _ := b.Serves(pod, b.clock.Now())
	switch {
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return free(NotProtected, all[0].Name, "it mirrors a static Pod, which runs on without it")
	case isExempt(pod):
		return free(NotProtected, all[0].Name, "annotation "+policy.AnnotationNoProtect)
	case len(all) > mostOfPod && !serves:
		return free(disruption.NotServing, all[0].Name, "it does not serve")
	case len(all) > mostOfPod:
		why := reason.Reason{
			Code: TooManyBudgets, Object: reason.ObjectOf("Pod", pod), Detail: fmt.Sprintf("%d budgets are for it", len(all)),
			Remedy: fmt.Sprintf("have no more than %d select one Pod", mostOfPod),
		}
		return Answer{disruption.Decision{Reason: why}, all[0].Name}, nil
	}
	var keys []client.ObjectKey
	for _, budget := range all {
		spec := b.specOf(budget)
		if !spec.ignored.Matches(labels.Set(pod.Labels)) && covers(spec.operations, operation, b.gates) {
			keys = append(keys, client.ObjectKeyFromObject(budget))
		}
	}
	if len(keys) == 0 {
		return free(NotCovered, all[0].Name, "the budget is not about "+string(operation)+", or leaves Pods of these labels out")
	}
	request := disruption.Request{Pod: pod, Operation: operation, OutOfService: !serves, Gated: gated}
	decision, by, err := b.guard.AskAll(ctx, keys, request, dryRun)
	return Answer{decision, by.Name}, err
}

// isExempt reports whether an annotation of the Pod excludes the Pod from all budgets.
func isExempt(pod *corev1.Pod) bool {
	exempt, err := strconv.ParseBool(pod.Annotations[policy.AnnotationNoProtect])
	return err == nil && exempt
}

// Permit asks the budgets for a controller that is about to change or delete a Pod. If the Pod has the readiness
// gate, the controller must close the gate before a change. If Permit returns nil, the controller may act, and the
// webhook will admit the controller's request as well.
func (b *Budgets) Permit(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error {
	answer, err := b.ask(ctx, pod, operation, false, permitWaits, true)
	if err != nil {
		return fmt.Errorf("asking the budget of Pod %s: %w", pod.Name, err)
	}
	if answer.Admitted {
		return nil
	}
	why := answer.Reason
	why.Detail = "PodUnavailableBudget " + answer.Budget + ": " + why.Detail // the object of the reason is the Pod
	return why
}

// Stamp writes the names of the Pod's budgets into the annotations of a Pod that is being created. The result is false
// if the Pod has no budget.
func (b *Budgets) Stamp(pod *corev1.Pod) bool {
	of := b.Of(pod)
	if len(of) == 0 {
		return false
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	for key, value := range marks(of) {
		if value == nil {
			delete(pod.Annotations, key)
		} else {
			pod.Annotations[key] = *value
		}
	}
	return true
}
