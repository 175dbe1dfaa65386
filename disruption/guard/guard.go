// Package guard asks a disruption budget whether a Pod may be taken out of service; several replicas of a webhook may
// ask at the same time.
//
// A [Guard] decides with package disruption, and stores the changed ledger in the status of the budget's object before
// answering:
//
//	g, err := guard.New(mgr.GetClient(), mgr.GetAPIReader(), &v1.Budget{}, guard.Config[*v1.Budget]{Ledger: ledgerOf, Store: store})
//	server.Register("/validate-pods", &webhook.Admission{Handler: g.Handler(protectionOf)})
//
// A webhook that builds its own responses reads the request with [ReviewOf] and asks with [Guard.Ask] or
// [Guard.AskAll]. A controller asks with [Guard.Permit].
//
// Package ownercache/sharedstatus writes the ledger by compare-and-swap: if the object has changed since, or a write
// had no response, the Guard reads the object again from the API server and decides again. Within a process, requests
// about the same budget queue up and share writes; each request is answered after the write that contains its entry. If
// more than 64 requests about a budget wait in a process, further requests are refused (Contended), even if the budget
// is not spent: clients such as kubectl drain retry.
//
// If the API server answers that a budget does not exist, the budget protects no Pod (BudgetGone). The API server
// cannot distinguish a deleted budget from a misspelt name, so name the budget by a reference that the API maintains,
// such as the Pod's owner reference. A cache may not show a new owner yet: see ownercache.Cache.OwnerOf. An empty name
// is an error, and the Pod must not be taken out of service.
//
// The counting controller must also write on condition that the object is unchanged; see package disruption.
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
	// BudgetGone means that the budget does not exist, or is being deleted: the budget no longer protects any Pod.
	BudgetGone reason.Code = "BudgetGone"
	// Contended means that each attempt to write the budget had a conflict, or too many requests wait.
	Contended reason.Code = "Contended"
)

// Config is the configuration of a Guard.
type Config[O client.Object] struct {
	// Ledger returns the ledger stored in the object, and must not modify the object. Required.
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
// cache. live must not read from a cache. The error names a missing argument.
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

// Ask decides whether to admit a request, and stores the changed ledger unless dryRun is set. Ask fills in the
// request's Generation. If the budget is missing or being deleted, Ask admits the request (BudgetGone); if a new
// object with the same name exists, Ask asks the new object. An error means an empty name in the key, a failed read
// or write, a cancelled context, or an object that does not keep the stored ledger. After an error, the caller must
// not take the Pod out of service.
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

// ofOwn removes the reason LetGoAlready from the decision about a request if the request itself has spent from the
// budget (spent is true): the entry in the ledger is the request's own.
func ofOwn(decision disruption.Decision, spent bool) disruption.Decision {
	if spent && decision.Admitted && decision.Reason.Code == disruption.LetGoAlready {
		decision.Reason = reason.Reason{}
	}
	return decision
}

// decide decides about a request, given a version of the budget.
func (g *Guard[O]) decide(budget O, before disruption.Ledger, request disruption.Request, dryRun bool) (disruption.Ledger, disruption.Decision, sharedstatus.Need) {
	if budget.GetDeletionTimestamp() != nil { // a new object may have the name, not yet in the cache
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

// Permit is like Ask, for a controller about to act: if Permit returns nil, the controller may act, and a webhook with
// the same budget will also admit the controller's request. Otherwise the error is the reason of the refusal, or an
// error of Ask. serves says that the Pod is in service now. executor.Options.Permit may call Permit: an executor closes
// the Pod's readiness gate before a change, if the Pod has one, see disruption.Request.Gated. A controller that changes
// a Pod with an open gate must call Ask.
//
// Permit spends from the ledger stored by the last count. A Pod that has failed since the count still counts as in
// service, even if the reconcile that calls Permit knows of the failure. A controller whose rollouts may take down
// several Pods at a time must count at the start of the reconcile, store the count
// (ownercache.View.WriteSharedStatus), and act in this reconcile only if the count was stored. Alternatively, set the
// rollout's MaxUnavailable to the number of Pods that the budget allows to be unavailable: package rollout counts
// Pods that have failed as unavailable.
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

// prompt is the longest duration of a round after which AskAll needs no second round. After a longer round, the first
// entries may expire soon, because their times are from before the first write.
const prompt = time.Second

// isKept returns an error unless the object returned by the API server has the stored number Allowed and the stored
// entries. The status of the object may drop other fields of the ledger.
func isKept(got, want disruption.Ledger) error {
	if got.Allowed != want.Allowed || len(got.Leaving) != len(want.Leaving) || len(got.Changing) != len(want.Changing) {
		return fmt.Errorf("%d allowed, %d leaving and %d changing were written, and %d, %d and %d are there",
			want.Allowed, len(want.Leaving), len(want.Changing), got.Allowed, len(got.Leaving), len(got.Changing))
	}
	return nil
}

// mayHaveChanged reports whether a decision that wrote nothing depends on a possibly outdated count.
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
