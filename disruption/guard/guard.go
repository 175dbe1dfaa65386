// Package guard asks a disruption budget whether a Pod may be taken out of service, for webhooks that run in several replicas at once.
//
// A [Guard] decides with package disruption, and stores what was spent in the status of the budget's object before it answers:
//
//	g, err := guard.New(mgr.GetClient(), mgr.GetAPIReader(), &v1.Budget{}, guard.Config[*v1.Budget]{Ledger: ledgerOf, Store: store})
//	decision, err := g.Ask(ctx, key, disruption.Request{Pod: pod, Operation: disruption.Evict, OutOfService: !serves}, false)
//
// The write carries the resourceVersion that was decided on. Where somebody else was faster, the object is read anew from the API server
// and decided on again. Requests about one budget wait for each other within a process, and each decides on what the one before has stored: the
// cache is not awaited, and replicas alone meet in conflicts. Where more than 64 requests about one budget wait in a process, the others are refused
// (Contended) whatever is left: they come again.
//
// The controller that counts must write on the condition that nobody else has, too; see package disruption.
//
// RBAC: get on the kind of the budget, list and watch where the client reads from a cache, and patch on its status.
package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

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
	// BudgetGone means that the budget does not exist, or is being deleted: it protects nobody any more.
	BudgetGone reason.Code = "BudgetGone"
	// Contended means that others changed the budget each time that something was to be spent from it, or that too many wait for that.
	Contended reason.Code = "Contended"
)

// Config of a Guard.
type Config[O client.Object] struct {
	// Ledger returns what the object says; it must not modify it. An object that was not counted since its spec changed
	// (status.observedGeneration) says so with Counted. Required.
	Ledger func(O) disruption.Ledger
	// Store writes a ledger into the status of an object, which is Store's to write to. Required.
	Store func(O, disruption.Ledger)
	// Policy is the one that the controller counts with.
	Policy disruption.Policy
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Guard asks the budgets of one kind. It is safe for concurrent use. Make it with New.
type Guard[O client.Object] struct {
	client client.Client
	live   client.Reader
	config Config[O]
	empty  O

	mu      sync.Mutex
	budgets map[types.UID]*budget[O]
	swept   time.Time
}

// budget is one that was asked lately.
type budget[O client.Object] struct {
	// turn has room for the one who may decide.
	turn chan struct{}
	// users are those who decide or wait for it. What follows is for the one who has the turn.
	users  int
	used   time.Time
	newest O
	known  bool
	// confirmed is when the API server was asked last.
	confirmed time.Time
}

// remembered is how long the guard remembers a budget that nobody asks. By then every cache shows what was stored.
const remembered = time.Minute

// confirms is for how long what the API server has said of a budget stands for it, where nothing is spent. A cache may be later than that.
const confirms = time.Second

// New returns a Guard for the kind of empty, which is an object of it, such as &v1.Budget{}. c writes, and may read from a cache; live must
// not. The error says what is missing.
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
	return &Guard[O]{client: c, live: live, empty: empty, config: config, budgets: map[types.UID]*budget[O]{}}, nil
}

// Ask decides about a request, and stores what it spends unless it is a dry run. A budget that does not exist, or is being deleted, admits
// everything, with BudgetGone. The error is that of a read or a write that failed, or the context's, or says that what was stored is not there:
// then nothing is known, and the Pod must not be let go.
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
	b, err := g.enter(ctx, object.GetUID())
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

// retries is how long somebody waits for the next try: six of them in a second or so. Clients of an eviction try again by themselves.
func retries() wait.Backoff {
	return wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6}
}

// prompt is how long a write may take until it is asked once more whether the Pod may go: its time counts from before the write, and it goes after it.
const prompt = time.Second

// spend decides and stores, until it has decided on what is stored.
func (g *Guard[O]) spend(ctx context.Context, b *budget[O], object O, request disruption.Request, dryRun bool) (disruption.Decision, error) {
	key := client.ObjectKeyFromObject(object)
	for pause := retries(); ; {
		decision, then, failed := g.try(ctx, b, object, request, dryRun)
		switch {
		case then == missing: // which the API server says of a status that is no subresource, too
		case failed != nil:
			return disruption.Decision{}, failed
		case then == done:
			return decision, nil
		case then == slow: // the next answer may be that the Pod was let go a moment ago, by this request
			object = b.newest
			continue
		case then == overtaken && pause.Steps <= 0:
			return contended(key), nil
		case then == overtaken:
			if err := sleep(ctx, pause.Step()); err != nil {
				return disruption.Decision{}, fmt.Errorf("waiting to spend from budget %s: %w", key, err)
			}
		}
		newest, err := g.get(ctx, g.live, key)
		if err != nil && !isGone(err) {
			return disruption.Decision{}, err
		}
		if newest.GetUID() != object.GetUID() { // a successor of the name has its own turn
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

// next is what has become of a try.
type next uint8

const (
	done        next = iota
	unconfirmed      // the API server is to be asked first
	overtaken        // somebody else was faster
	slow             // it is stored, and the Pod's time has begun long ago
	missing          // there is no such object, or no such subresource; the error says which was written
)

// try decides once, and stores what it spends.
func (g *Guard[O]) try(ctx context.Context, b *budget[O], object O, request disruption.Request, dryRun bool) (disruption.Decision, next, error) {
	key, now := client.ObjectKeyFromObject(object), g.config.Clock.Now()
	if object.GetDeletionTimestamp() != nil {
		return gone(key), done, nil
	}
	ledger, decision := g.config.Policy.Decide(g.config.Ledger(object), request, now)
	if !decision.Changed && now.Sub(b.confirmed) >= confirms && mayHaveChanged(decision.Reason.Code) {
		// Nothing is written that an old cache would make a conflict of, and others may have spent for this very request.
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

// errNotKept means that an object does not say what was written to it. Others would spend once more what was spent.
var errNotKept = errors.New("the ledger was not kept")

// verify makes sure that an object says what is left, and who was let go.
func (g *Guard[O]) verify(object O, want disruption.Ledger) error {
	got := g.config.Ledger(object)
	if got.Allowed != want.Allowed || len(got.Leaving) != len(want.Leaving) || len(got.Changing) != len(want.Changing) {
		return fmt.Errorf("%w: %d allowed, %d leaving and %d changing were written, and %d, %d and %d are there", errNotKept,
			want.Allowed, len(want.Leaving), len(want.Changing), got.Allowed, len(got.Leaving), len(got.Changing))
	}
	return nil
}

// mayHaveChanged reports whether a decision that writes nothing depends on a count that may be an old one.
func mayHaveChanged(code reason.Code) bool {
	switch code {
	case disruption.NothingNeeded, disruption.BudgetSpent, disruption.NotCounted:
		return true
	}
	return false
}

// read reads a budget, from the API server where the cache does not have it: it may be new.
func (g *Guard[O]) read(ctx context.Context, key client.ObjectKey) (O, error) {
	object, err := g.get(ctx, g.client, key)
	if apierrors.IsNotFound(err) {
		return g.get(ctx, g.live, key)
	}
	return object, err
}

// isGone reports whether an object does not exist. That its kind is not served says nothing about the object.
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

// crowd is how many requests about one budget are answered or wait at a time. Who asks for more is told to come again at once: a webhook has places
// for the requests of all namespaces, and those that wait for one budget must not take them all.
const crowd = 64

var errCrowded = errors.New("guard: too many requests wait")

// enter waits for one's turn, unless too many do. The error is errCrowded then.
func (g *Guard[O]) enter(ctx context.Context, uid types.UID) (*budget[O], error) {
	g.mu.Lock()
	b := g.budgets[uid]
	if b == nil {
		b = &budget[O]{turn: make(chan struct{}, 1)}
		g.budgets[uid] = b
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

// leave gives the turn to the next, and forgets budgets that nobody has asked for a while.
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
	for uid, b := range g.budgets {
		if b.users == 0 && now.Sub(b.used) >= remembered {
			delete(g.budgets, uid)
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
