// Package sharedstatus stores decisions in a status with several writers: webhooks in several replicas take shares or
// places from a ledger in the status of an object, and a controller counts the ledger anew.
//
// The caller says where the ledger stands, and how to decide:
//
//	budgets, err := sharedstatus.New(mgr.GetClient(), mgr.GetAPIReader(), &v1.Budget{}, sharedstatus.Config[*v1.Budget, Ledger]{Ledger: ledgerOf, Store: store})
//	answer, err := sharedstatus.Ask(ctx, budgets, key, pod.Name, func(b *v1.Budget, before Ledger) (Ledger, Answer, sharedstatus.Need) { ... })
//
// [Ask] returns an answer only after the ledger with the answer's share is stored. The write carries the
// resourceVersion of the decision (compare-and-swap): if somebody else was faster, the object is read from the API
// server, and decided on anew. A write without an answer, such as a timed-out write, may have happened. So the object
// is read from the API server and decided on anew as well. The decision must find its own entry there, by a key of the
// request, and then asks for no second entry.
//
// # Requests share writes
//
// Within a process, requests about an object wait for each other, and each decision starts from the object stored last,
// without waiting for the cache. Requests that come while a write is under way, or in the 12 ms after a write, are
// decided together, in the order of their names, and written once. Conflicts arise only between processes. After a
// conflict a process leaves up to 80 ms between its writes, and reads the object from the API server before each write,
// so that many processes do not only refuse each other. If more than 64 requests about an object wait in a process,
// further requests get [ErrContended]: clients come again, and requests about other objects have room.
//
// # Given back
//
// An entry is a promise that the counting controller ends: the controller drops an entry when the Pod is there, is
// gone, or has not come for some time. A request that fails later, or a process that dies after the write, leaves an
// entry for the count. The counter must write on condition of an unchanged object, as ownercache.View.WriteSharedStatus
// does.
//
// RBAC: get on the kind of the object, list and watch if the client reads from a cache, and patch on its status.
package sharedstatus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	// ErrGone means that the API server has no object of the name.
	ErrGone = errors.New("the object does not exist")
	// ErrContended means that others changed the object at each attempt to write, that all writes took too long, or that
	// too many requests wait. Nothing is promised: the client comes again.
	ErrContended = errors.New("others ask for the object, or change it, at the same time")
)

// Need is what must happen before the answer of a decision counts.
type Need uint8

const (
	// Confirm needs a present object: the answer changes nothing, and depends on the possibly old ledger. The API server
	// is asked, at most once a second for an object.
	Confirm Need = iota
	// Store needs the ledger stored first.
	Store
	// Answer needs nothing: the answer is right whatever the others do.
	Answer
)

// Config of Statuses.
type Config[O client.Object, L any] struct {
	// Ledger returns the ledger in the object, and must not modify the object. Required.
	Ledger func(O) L
	// Store writes a ledger into the status of the given object. Store may modify the object. Required.
	Store func(O, L)
	// Kept returns an error if the ledger read back from an object is not the stored ledger: a later request would take
	// the same share again. nil wants equal ledgers.
	Kept func(got, want L) error
	// Noun names an object in errors, "object" if empty.
	Noun string
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Statuses are the statuses of the objects of a kind. Statuses are safe for concurrent use. Make Statuses with New.
type Statuses[O client.Object, L any] struct {
	client client.Client
	live   client.Reader
	config Config[O, L]
	empty  O

	mu      sync.Mutex
	objects map[identity]*object[O, L]
	swept   time.Time
}

// identity tells objects apart. Some clients of tests give no UIDs.
type identity struct {
	client.ObjectKey

	uid types.UID
}

// New returns Statuses for the kind of empty, an object of the kind, such as &v1.Budget{}. c writes, and may read from
// a cache. live must not read from a cache. The error names the missing argument.
func New[O client.Object, L any](c client.Client, live client.Reader, empty O, config Config[O, L]) (*Statuses[O, L], error) {
	if c == nil || live == nil || config.Ledger == nil || config.Store == nil {
		return nil, errors.New("sharedstatus: a client, an API reader, Ledger and Store are required")
	}
	if v := reflect.ValueOf(empty); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("sharedstatus: empty must be an object, such as &v1.Budget{}, and is a nil %T", empty)
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Noun == "" {
		config.Noun = "object"
	}
	if config.Kept == nil {
		config.Kept = isEqual
	}
	return &Statuses[O, L]{client: c, live: live, config: config, empty: empty, objects: map[identity]*object[O, L]{}}, nil
}

func isEqual[L any](got, want L) error {
	if !equality.Semantic.DeepEqual(got, want) {
		return fmt.Errorf("%+v was written, and %+v is there", want, got)
	}
	return nil
}

// successors is how often a request follows the object's name to a successor.
const successors = 3

// Ask decides about a request, and stores the ledger before the answer where the decision needs so. name is what the
// request is about, such as a Pod: requests of the same moment are decided in the order of their names. decide returns
// the ledger after the request, the answer, and the Need; decide must not modify the object or the ledger, and sees the
// shares of requests written together. decide is called again after each failed attempt: the last answer counts. decide
// runs on another goroutine, and not any more once Ask has returned an answer.
//
// A successor of the object is asked in its own right. The error is ErrGone by an answer of the API server alone,
// ErrContended, or of a failed read or write, the context's end, or a stored ledger that is not in the object: then
// nothing is known, and nothing promised. A ledger stored nevertheless has an entry for the count to end.
func Ask[O client.Object, L, A any](
	ctx context.Context, s *Statuses[O, L], key client.ObjectKey, name string, decide func(object O, before L) (after L, answer A, then Need),
) (answer A, err error) {
	var none A
	switch {
	case s == nil || s.objects == nil:
		return none, errors.New("sharedstatus: make Statuses with New")
	case key.Name == "":
		return none, fmt.Errorf("sharedstatus: no %s is named", s.config.Noun)
	case decide == nil:
		return none, fmt.Errorf("sharedstatus: nothing decides about %s %s", s.config.Noun, key)
	}
	seen, err := s.read(ctx, key)
	for range successors {
		if err != nil {
			return none, err
		}
		r := &request[O, L]{name: name, ctx: ctx, seen: seen, answered: make(chan error, 1)}
		given := new(A) // written to by another goroutine, until the answer
		r.decide = func(object O, before L) (after L, then Need) {
			after, *given, then = decide(object, before)
			return after, then
		}
		if err = s.await(r, key); err == nil {
			return *given, nil
		}
		if !errors.Is(err, errReplaced) {
			return none, err
		}
		seen, err = s.get(ctx, s.live, key)
	}
	return none, ErrContended
}
