// Package guard asks a disruption budget whether a Pod may be taken out of service, for webhooks with several replicas
// at once.
//
// A [Guard] decides with package disruption, and stores the spending in the status of the budget's object before the
// answer:
//
//	g, err := guard.New(mgr.GetClient(), mgr.GetAPIReader(), &v1.Budget{}, guard.Config[*v1.Budget]{Ledger: ledgerOf, Store: store})
//	server.Register("/validate-pods", &webhook.Admission{Handler: g.Handler(protectionOf)})
//
// A webhook with answers of its own reads the request with [ReviewOf] and asks with [Guard.Ask] or [Guard.AskAll]. A
// controller asks with [Guard.Permit].
//
// Package ownercache/sharedstatus stores the spending by compare-and-swap: if somebody else was faster, or a write had
// no answer, the Guard reads the object anew from the API server and decides again. Requests about the same budget in a
// process wait for each other and share writes, and each is answered after the write with its spending. If more than 64
// requests about a budget wait in a process, further requests are refused (Contended), even with budget left: clients
// come again.
//
// A budget that does not exist, by an answer of the API server, protects nobody (BudgetGone). The API server knows no
// difference between a budget that is gone and a misspelt name, so name the budget by a reference that the API keeps,
// such as the Pod's owner reference. A cache shows a new owner late: see ownercache.Cache.OwnerOf. An empty name is an
// error, and keeps the Pod.
//
// The counting controller must also write on condition of an unchanged object; see package disruption.
//
// RBAC: get on the kind of the budget, list and watch if the client reads from a cache, and patch on its status.
package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/ownercache/sharedstatus"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// BudgetGone means that the budget does not exist, or is being deleted: the budget no longer protects anybody.
	BudgetGone reason.Code = "BudgetGone"
	// Contended means that somebody else changed the budget at each attempt to spend, or that too many requests wait.
	Contended reason.Code = "Contended"
)

// Config of a Guard.
type Config[O client.Object] struct {
	// Ledger returns the ledger in the object, and must not modify the object. Required.
	Ledger func(O) disruption.Ledger
	// Store writes a ledger into the status of the given object. Store may modify the object. Required.
	Store func(O, disruption.Ledger)
	// Policy is the Policy of the counting controller.
	Policy disruption.Policy
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Guard asks the budgets of a kind. A Guard is safe for concurrent use. Make a Guard with New.
type Guard[O client.Object] struct {
	live     client.Reader
	config   Config[O]
	statuses *sharedstatus.Statuses[O, disruption.Ledger]
}

// New returns a Guard for the kind of empty, an object of the kind, such as &v1.Budget{}. c writes, and may read from a
// cache. live must not read from a cache. The error names the missing argument.
func New[O client.Object](c client.Client, live client.Reader, empty O, config Config[O]) (*Guard[O], error) {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	statuses, err := sharedstatus.New(c, live, empty, sharedstatus.Config[O, disruption.Ledger]{
		Ledger: config.Ledger, Store: config.Store, Kept: isKept, Noun: "budget", Clock: config.Clock,
	})
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &Guard[O]{live: live, config: config, statuses: statuses}, nil
}

var errNotMade = errors.New("guard: make a Guard with New")

// Ask decides about a request, and stores the spending unless dryRun is set. Ask fills in the request's Generation. A
// missing budget, or a budget being deleted, admits everything, with BudgetGone; a successor of the name is asked
// instead. An error means a key without a name, a failed read or write, the context's end, or a stored ledger that is
// not in the object: then nothing is known, and the Pod must not be let go.
func (g *Guard[O]) Ask(ctx context.Context, key client.ObjectKey, request disruption.Request, dryRun bool) (disruption.Decision, error) {
	if g == nil || g.statuses == nil {
		return disruption.Decision{}, errNotMade
	}
	if pod := request.Pod; pod != nil && key.Namespace != "" && pod.Namespace != key.Namespace {
		return disruption.Decision{}, fmt.Errorf("guard: Pod %s/%s is in another namespace than budget %s, which knows Pods by their names", pod.Namespace, pod.Name, key)
	}
	spent, name := false, ""
	if request.Pod != nil {
		name = request.Pod.Name
	}
	decision, err := sharedstatus.Ask(ctx, g.statuses, key, name, func(budget O, before disruption.Ledger) (disruption.Ledger, disruption.Decision, sharedstatus.Need) {
		after, decision, then := g.decide(budget, before, request, dryRun)
		decision = ofOwn(decision, spent)
		spent = spent || then == sharedstatus.Store
		return after, decision, then
	})
	switch {
	case errors.Is(err, sharedstatus.ErrGone):
		return gone(key), nil
	case errors.Is(err, sharedstatus.ErrContended):
		return contended(key), nil
	case err != nil:
		return disruption.Decision{}, fmt.Errorf("guard: %w", err)
	}
	return decision, nil
}

// ofOwn is the answer to a request that may have spent before: the Pod let go a moment ago is the request's own.
func ofOwn(decision disruption.Decision, spent bool) disruption.Decision {
	if spent && decision.Admitted && decision.Reason.Code == disruption.LetGoAlready {
		decision.Reason = reason.Reason{}
	}
	return decision
}

// decide decides on a version of the budget.
func (g *Guard[O]) decide(budget O, before disruption.Ledger, request disruption.Request, dryRun bool) (disruption.Ledger, disruption.Decision, sharedstatus.Need) {
	if budget.GetDeletionTimestamp() != nil { // and the cache may not show a successor yet
		return before, gone(client.ObjectKeyFromObject(budget)), sharedstatus.Confirm
	}
	request.Generation = budget.GetGeneration()
	after, decision := g.config.Policy.Decide(before, request, g.config.Clock.Now())
	switch {
	case decision.Changed && !dryRun:
		return after, decision, sharedstatus.Store
	case !decision.Changed && mayHaveChanged(decision.Reason.Code):
		return before, decision, sharedstatus.Confirm
	}
	return before, decision, sharedstatus.Answer
}

// Permit is Ask for a controller about to act: nil means that the controller may act, and that the budget will also let
// the controller's own request pass a webhook. The error is otherwise the reason of the refusal, or an error of Ask.
// serves says that the Pod is in service now. executor.Options.Permit may call Permit: an executor closes the Pod's
// readiness gate before a change, if the Pod has one, see disruption.Request.Gated. A controller that changes a Pod
// with an open gate must call Ask.
//
// Permit spends from the ledger of the last count. A Pod that has failed since still counts as serving, also if the
// pass that asks knows better. A controller whose rollouts may take down more Pods than one at a time counts at the
// begin of the pass, stores the count (ownercache.View.WriteSharedStatus), and acts in this pass only if the count was
// stored, or lets the rollout keep to the same number of Pods: package rollout counts Pods that do not serve.
func (g *Guard[O]) Permit(ctx context.Context, key client.ObjectKey, pod *corev1.Pod, operation disruption.Operation, serves bool) error {
	decision, err := g.Ask(ctx, key, disruption.Request{Pod: pod, Operation: operation, OutOfService: !serves, Gated: true}, false)
	switch {
	case err != nil:
		return err
	case !decision.Admitted:
		return decision.Reason
	}
	return nil
}

// prompt is the longest time in which all budgets of a Pod are asked without a second question: the Pod's time counts
// from before the first write.
const prompt = time.Second

// isKept checks that a stored ledger has the expected allowance and entries. The status may have no place for the rest.
func isKept(got, want disruption.Ledger) error {
	if got.Allowed != want.Allowed || len(got.Leaving) != len(want.Leaving) || len(got.Changing) != len(want.Changing) {
		return fmt.Errorf("%d allowed, %d leaving and %d changing were written, and %d, %d and %d are there",
			want.Allowed, len(want.Leaving), len(want.Changing), got.Allowed, len(got.Leaving), len(got.Changing))
	}
	return nil
}

// mayHaveChanged reports whether a decision without a write depends on a count that may be old.
func mayHaveChanged(code reason.Code) bool {
	switch code {
	case disruption.NothingNeeded, disruption.BudgetSpent, disruption.NotCounted:
		return true
	}
	return false
}

func gone(key client.ObjectKey) disruption.Decision {
	return disruption.Decision{Admitted: true, Reason: reason.Reason{Code: BudgetGone, Object: objectOf(key), Detail: "the budget does not exist any more"}}
}

func contended(key client.ObjectKey) disruption.Decision {
	return disruption.Decision{Reason: reason.Reason{
		Code: Contended, Object: objectOf(key), Detail: "others ask for it, or change it, at the same time", Remedy: "try again in a moment",
	}}
}

func objectOf(key client.ObjectKey) reason.Object {
	return reason.Object{Kind: "budget", Namespace: key.Namespace, Name: key.Name}
}
