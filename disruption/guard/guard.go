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
// The write carries the resourceVersion of the decision. If somebody else was faster, the Guard reads the object anew
// from the API server and decides again. Requests about the same budget wait for each other within a process, and each
// decides on the object stored by its predecessor. The Guard does not wait for the cache, so conflicts arise only
// between replicas. If more than 64 requests about a budget wait in a process, further requests are refused
// (Contended), even with budget left: clients come again.
//
// The counting controller must also write on condition of an unchanged object; see package disruption.
//
// RBAC: get on the kind of the budget, list and watch if the client reads from a cache, and patch on its status.
package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
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

// budgetKey tells budgets apart. Some clients of tests give no UIDs.
type budgetKey struct {
	client.ObjectKey

	uid types.UID
}

// Guard asks the budgets of a kind. A Guard is safe for concurrent use. Make a Guard with New.
type Guard[O client.Object] struct {
	client client.Client
	live   client.Reader
	config Config[O]
	empty  O

	mu      sync.Mutex
	budgets map[budgetKey]*budget[O]
	swept   time.Time
}

// budget is a lately asked budget.
type budget[O client.Object] struct {
	// turn has room for a single deciding request.
	turn chan struct{}
	// users counts the deciding request and the waiting requests. Only the request with the turn may use the fields below.
	users  int
	used   time.Time
	newest O
	known  bool
	// confirmed is when the API server was asked last.
	confirmed time.Time
}

// remembered is the time for which the guard remembers a budget without requests. After a minute every cache shows the
// stored version.
const remembered = time.Minute

// confirms is the time for which the API server's answer about a budget stays valid if nothing is spent. A cache may
// lag by more.
const confirms = time.Second

// New returns a Guard for the kind of empty, an object of the kind, such as &v1.Budget{}. c writes, and may read from a
// cache. live must not read from a cache. The error names the missing argument.
func New[O client.Object](c client.Client, live client.Reader, empty O, config Config[O]) (*Guard[O], error) {
	if c == nil || live == nil || config.Ledger == nil || config.Store == nil {
		return nil, errors.New("guard: a client, an API reader, Ledger and Store are required")
	}
	if v := reflect.ValueOf(empty); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("guard: empty must be an object, such as &v1.Budget{}, and is a nil %T", empty)
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Guard[O]{client: c, live: live, empty: empty, config: config, budgets: map[budgetKey]*budget[O]{}}, nil
}

// Ask decides about a request, and stores the spending unless dryRun is set. Ask fills in the request's Generation. A
// missing budget, or a budget being deleted, admits everything, with BudgetGone. An error means a failed read or write,
// the context's end, or a stored ledger that is not in the object: then nothing is known, and the Pod must not be let go.
func (g *Guard[O]) Ask(ctx context.Context, key client.ObjectKey, request disruption.Request, dryRun bool) (disruption.Decision, error) {
	if pod := request.Pod; pod != nil && key.Namespace != "" && pod.Namespace != key.Namespace {
		return disruption.Decision{}, fmt.Errorf("guard: Pod %s/%s is in another namespace than budget %s, which knows Pods by their names", pod.Namespace, pod.Name, key)
	}
	object, err := g.read(ctx, key)
	if isGone(err) {
		return gone(key), nil
	}
	if err != nil {
		return disruption.Decision{}, err
	}
	b, err := g.enter(ctx, budgetKey{key, object.GetUID()})
	if errors.Is(err, errCrowded) {
		return contended(key), nil
	}
	if err != nil {
		return disruption.Decision{}, fmt.Errorf("waiting for other requests about budget %s: %w", key, err)
	}
	defer g.leave(b)
	if b.known && isOlder(object, b.newest) {
		object = b.newest
	}
	return g.spend(ctx, b, object, request, dryRun)
}

// Permit is Ask for a controller about to act: nil means that the controller may act, and that the budget will also let
// the controller's own request pass a webhook. The error is otherwise the reason of the refusal, or an error of Ask. serves
// says that the Pod is in service now. executor.Options.Permit may call Permit: an executor closes the Pod's readiness
// gate before a change, if the Pod has one, see disruption.Request.Gated. A controller that changes a Pod with an open
// gate must call Ask.
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

// retries is the wait before the next attempt: six attempts within about a second. Clients of an eviction try again by
// themselves.
func retries() wait.Backoff {
	return wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6}
}

// prompt is the longest time of a write without a second question whether the Pod may go: the Pod's time counts from
// before the write, and the Pod goes after the write. Where writes are always slower, tolerable is the longest time of
// the last one.
const (
	prompt    = time.Second
	tolerable = 3 * time.Second
)

// spend decides and stores, until the decision rests on the stored object.
func (g *Guard[O]) spend(ctx context.Context, b *budget[O], object O, request disruption.Request, dryRun bool) (disruption.Decision, error) {
	key := client.ObjectKeyFromObject(object)
	for pause := retries(); ; {
		began := g.config.Clock.Now()
		decision, then, failed := g.try(ctx, b, object, request, dryRun)
		if pause.Steps <= 0 {
			then = then.last(g.config.Clock.Since(began))
		}
		switch {
		case then == missing: // the API server also says so of a status that is no subresource
		case failed != nil:
			return disruption.Decision{}, failed
		case then == done:
			return decision, nil
		case then == hopeless:
			return contended(key), nil
		case then == slow: // the next answer may be that the same request has let the Pod go a moment ago
			object = b.newest
			pause.Steps--
			continue
		case then == overtaken:
			if err := sleep(ctx, pause.Step()); err != nil {
				return disruption.Decision{}, fmt.Errorf("waiting to spend from budget %s: %w", key, err)
			}
		}
		newest, err := g.get(ctx, g.live, key)
		if err != nil && !isGone(err) {
			return disruption.Decision{}, err
		}
		if newest.GetUID() != object.GetUID() { // a successor of the same name has its own turn
			return gone(key), nil
		}
		if then == missing {
			return disruption.Decision{}, failed
		}
		if object = newest; then == unconfirmed {
			b.newest, b.known, b.confirmed = newest, true, g.config.Clock.Now()
		}
	}
}

// next is the outcome of a try.
type next uint8

const (
	done        next = iota
	unconfirmed      // the API server is to be asked first
	overtaken        // somebody else was faster
	slow             // stored, but the Pod's time has begun long ago
	missing          // no such object, or no such subresource; the error names the write
	hopeless         // slow or overtaken too often
)

// last is the outcome of the last try, which took some time.
func (n next) last(took time.Duration) next {
	switch {
	case n == slow && took < tolerable:
		return done
	case n == slow, n == overtaken:
		return hopeless
	}
	return n
}

// try decides once, and stores the spending.
func (g *Guard[O]) try(ctx context.Context, b *budget[O], object O, request disruption.Request, dryRun bool) (disruption.Decision, next, error) {
	key, now := client.ObjectKeyFromObject(object), g.config.Clock.Now()
	if object.GetDeletionTimestamp() != nil {
		return gone(key), done, nil
	}
	request.Generation = object.GetGeneration()
	ledger, decision := g.config.Policy.Decide(g.config.Ledger(object), request, now)
	if !decision.Changed && now.Sub(b.confirmed) >= confirms && mayHaveChanged(decision.Reason.Code) {
		// No write follows that would turn an old cache into a conflict, and somebody else may have spent for the same
		// request.
		return decision, unconfirmed, nil
	}
	if !decision.Changed || dryRun {
		return decision, done, nil
	}
	after, _ := object.DeepCopyObject().(O) // of the same type
	g.config.Store(after, ledger)
	if err := g.verify(after, ledger); err != nil {
		return decision, done, fmt.Errorf("Config.Store and Config.Ledger do not agree on budget %s: %w", key, err)
	}
	err := g.client.Status().Patch(ctx, after, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err):
		return decision, missing, fmt.Errorf("patching the status of budget %s, which its CRD must have as a subresource: %w", key, err)
	case apierrors.IsConflict(err):
		return decision, overtaken, nil
	case err != nil:
		return decision, done, fmt.Errorf("spending from budget %s: %w", key, err)
	}
	if err := g.verify(after, ledger); err != nil {
		return decision, done, fmt.Errorf("the API server does not store the ledger of budget %s; is a field missing in its schema: %w", key, err)
	}
	if b.newest, b.known = after, true; g.config.Clock.Since(now) >= prompt {
		return decision, slow, nil
	}
	return decision, done, nil
}

// errNotKept means that an object lacks the ledger written to the object. A later request would spend the same share
// again.
var errNotKept = errors.New("the ledger was not kept")

// verify checks that an object has the expected allowance and entries.
func (g *Guard[O]) verify(object O, want disruption.Ledger) error {
	got := g.config.Ledger(object)
	if got.Allowed != want.Allowed || len(got.Leaving) != len(want.Leaving) || len(got.Changing) != len(want.Changing) {
		return fmt.Errorf("%w: %d allowed, %d leaving and %d changing were written, and %d, %d and %d are there", errNotKept,
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

// read reads a budget. If the cache lacks the budget, read asks the API server, because the budget may be new.
func (g *Guard[O]) read(ctx context.Context, key client.ObjectKey) (O, error) {
	object, err := g.get(ctx, g.client, key)
	if apierrors.IsNotFound(err) {
		return g.get(ctx, g.live, key)
	}
	return object, err
}

// isGone reports whether an object does not exist. An unserved kind says nothing about the object.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (g *Guard[O]) get(ctx context.Context, from client.Reader, key client.ObjectKey) (O, error) {
	object, _ := g.empty.DeepCopyObject().(O) // of the same type
	if err := from.Get(ctx, key, object); err != nil {
		return object, fmt.Errorf("reading budget %s: %w", key, err)
	}
	return object, nil
}

// isOlder reports whether a was stored before b.
func isOlder(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

// crowd is the limit of requests about a budget in work or waiting. Further requests are told to come again at once: a
// webhook has places for the requests of all namespaces, and requests waiting for a single budget must not take all
// places.
const crowd = 64

var errCrowded = errors.New("guard: too many requests wait")

// enter waits for one's turn, unless too many do. The error is errCrowded then.
func (g *Guard[O]) enter(ctx context.Context, of budgetKey) (*budget[O], error) {
	g.mu.Lock()
	b := g.budgets[of]
	if b == nil {
		b = &budget[O]{turn: make(chan struct{}, 1)}
		g.budgets[of] = b
	}
	if b.users >= crowd {
		g.mu.Unlock()
		return nil, errCrowded
	}
	b.users++
	g.mu.Unlock()
	select {
	case b.turn <- struct{}{}:
		return b, nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		b.users--
		return nil, ctx.Err()
	}
}

// leave gives the turn to the next request, and forgets budgets without requests for a while.
func (g *Guard[O]) leave(b *budget[O]) {
	<-b.turn
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.config.Clock.Now()
	b.users--
	b.used = now
	if now.Sub(g.swept) < remembered {
		return
	}
	g.swept = now
	for of, b := range g.budgets {
		if b.users == 0 && now.Sub(b.used) >= remembered {
			delete(g.budgets, of)
		}
	}
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

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
