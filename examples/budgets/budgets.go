package budgets

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// Why a Pod is let go without its budget being asked.
const (
	// NoBudget means that no budget is for the Pod.
	NoBudget reason.Code = "NoBudget"
	// NotCovered means that the budget is not asked about the operation, or is not for Pods of these labels.
	NotCovered reason.Code = "NotCovered"
	// NotProtected means that the Pod's own annotation takes it out of all budgets.
	NotProtected reason.Code = "NotProtected"
)

// Answer is what becomes of a request.
type Answer struct {
	disruption.Decision

	// Budget is the name of the budget that was asked; empty for none.
	Budget string
}

// Manager is what Budgets need of a manager.
type Manager interface {
	ownercache.Manager
	GetRESTMapper() meta.RESTMapper
}

// Budgets are asked before a Pod is taken out of service. They are safe for concurrent use. Make them with New.
type Budgets struct {
	*Finder
	*Workloads
	*Serving

	live  client.Reader
	guard *guard.Guard[*v1beta1.PodUnavailableBudget]
	gates map[apps.Gate]bool
	clock clock.PassiveClock
}

// New returns Budgets that read from the manager's cache. c writes. Call it once for each manager, before that starts, and only where the CRD of
// PodUnavailableBudgets is installed. gates may be nil, for the defaults; so may the clock.
func New(ctx context.Context, mgr Manager, c client.Client, gates map[apps.Gate]bool, now clock.PassiveClock) (*Budgets, error) {
	if gates == nil {
		gates = apps.DefaultGates()
	}
	b := &Budgets{live: mgr.GetAPIReader(), gates: gates, clock: now}
	if now == nil {
		b.clock = clock.RealClock{}
	}
	var err error
	if b.Workloads, err = NewWorkloads(ctx, mgr, mgr.GetRESTMapper(), c, b.clock); err != nil {
		return nil, err
	}
	if b.Finder, err = NewFinder(ctx, mgr.GetCache(), b.Workloads); err != nil {
		return nil, err
	}
	if b.Serving, err = NewServing(gates); err != nil {
		return nil, err
	}
	b.guard, err = guard.New(c, mgr.GetAPIReader(), &v1beta1.PodUnavailableBudget{}, guard.Config[*v1beta1.PodUnavailableBudget]{
		Ledger: LedgerOf, Store: Store, Clock: b.clock,
	})
	return b, err
}

// Ask decides whether a Pod may be taken out of service by an operation, and spends from its budget where one has to be spent from, unless it is a dry
// run. The Pod should be as it is now: one that an old cache shows as not serving is let go for nothing. The error means that nothing is
// known, and the Pod must not be let go.
func (b *Budgets) Ask(ctx context.Context, pod *corev1.Pod, operation disruption.Operation, dryRun bool) (Answer, error) {
	free := func(code reason.Code, budget, detail string) (Answer, error) {
		why := reason.Reason{Code: code, Object: reason.ObjectOf("Pod", pod), Detail: detail}
		return Answer{disruption.Decision{Admitted: true, Reason: why}, budget}, nil
	}
	if !IsOn(b.gates, operation) {
		return free(NotCovered, "", "the feature gate for it is off")
	}
	budget, err := b.of(ctx, pod)
	if err != nil {
		return Answer{}, err
	}
	switch {
	case budget == nil:
		return free(NoBudget, "", "no budget is for it")
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return free(NotProtected, budget.Name, "it mirrors a static Pod, which runs on without it")
	case isExempt(pod):
		return free(NotProtected, budget.Name, "annotation "+policy.AnnotationNoProtect)
	case selects(budget.Spec.IgnoredPodSelector, pod.Labels):
		return free(NotCovered, budget.Name, "the budget leaves Pods of these labels out")
	case !Covers(&budget.Spec, operation, b.gates):
		return free(NotCovered, budget.Name, "the budget is not about "+string(operation))
	}
	serves, _ := b.Serves(pod, b.clock.Now())
	request := disruption.Request{Pod: pod, Operation: operation, OutOfService: !serves}
	decision, err := b.guard.Ask(ctx, client.ObjectKeyFromObject(budget), request, dryRun)
	return Answer{decision, budget.Name}, err
}

// of returns the budget of a Pod. One that the Pod names and the cache does not have may be new: the API server knows.
func (b *Budgets) of(ctx context.Context, pod *corev1.Pod) (*v1beta1.PodUnavailableBudget, error) {
	budget, name := b.Of(pod), NameIn(pod)
	if budget != nil || name == "" {
		return budget, nil
	}
	named := &v1beta1.PodUnavailableBudget{}
	err := b.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, named)
	if apierrors.IsNotFound(err) || err == nil && !b.IsFor(named, pod) {
		return nil, nil //nolint:nilnil // There is none.
	}
	if err != nil {
		return nil, fmt.Errorf("reading PodUnavailableBudget %s/%s: %w", pod.Namespace, name, err)
	}
	return named, nil
}

// isExempt reports whether a Pod takes itself out of all budgets.
func isExempt(pod *corev1.Pod) bool {
	exempt, err := strconv.ParseBool(pod.Annotations[policy.AnnotationNoProtect])
	return err == nil && exempt
}

// Permit is Ask for a controller that is about to act: nil means that it may, and that its request will be let go as well.
func (b *Budgets) Permit(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error {
	answer, err := b.Ask(ctx, pod, operation, false)
	if err != nil {
		return fmt.Errorf("asking the budget of Pod %s: %w", pod.Name, err)
	}
	if answer.Admitted {
		return nil
	}
	return fmt.Errorf("PodUnavailableBudget %s: %w", answer.Budget, answer.Reason)
}

// Stamp has a Pod that is being created name its budget. It reports whether the Pod has one.
func (b *Budgets) Stamp(pod *corev1.Pod) bool {
	budget := b.Of(pod)
	if budget == nil {
		return false
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[policy.AnnotationRelatedBudget], pod.Annotations[policy.AnnotationRelatedBudgetOld] = budget.Name, budget.Name
	return true
}
