// Package sharedstatus stores decisions in a status with several writers. A ledger in the status of an object, such
// as the disruptions used of a budget, has an entry for each share that was granted. Replicas of a webhook add
// entries, and a controller counts anew and removes entries.
//
// The caller says where in the object the ledger is stored, and how to decide:
//
//	budgets, err := sharedstatus.New(mgr.GetClient(), mgr.GetAPIReader(), &v1.Budget{}, sharedstatus.Config[*v1.Budget, Ledger]{Ledger: ledgerOf, Store: store})
//	answer, err := sharedstatus.Ask(ctx, budgets, key, pod.Name, func(b *v1.Budget, before Ledger) (Ledger, Answer, sharedstatus.Need) { ... })
//
// [Ask] returns an answer only after the ledger has been stored with the share that the answer grants. The write
// carries the resourceVersion on which the decision was made (compare-and-swap): if somebody else has written since,
// the object is read again from the API server, and the decision is made again. A write without a response, such as a
// timed-out write, may have happened. Then, too, the object is read from the API server and the decision is made again.
// The decision must recognise its own entry in the ledger, by a key of the request, and must not add a second entry.
//
// # Requests share writes
//
// Within a process, requests about an object wait for each other, and each decision starts from the version written
// last, without waiting for the cache. Requests that arrive during a write, or in the 12 ms after a write, are decided
// together, in the order of their names, and stored in a single write. Conflicts arise only between processes. After a
// conflict a process waits up to 80 ms between its writes, and reads the object from the API server before each write,
// so that several processes do not keep causing each other conflicts. If more than 64 requests about an object wait in
// a process, further requests fail with [ErrContended]: clients retry, and requests about other objects are not
// delayed.
//
// # Unused shares
//
// An entry of the ledger reserves a share until the counting controller removes the entry: when the Pod exists, was
// deleted, or has not appeared for some time. If a request fails later, or a process dies after the write, the
// controller's next count removes the entry. The controller must write on condition that the object has not changed,
// as ownercache.View.WriteSharedStatus does.
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
	// ErrGone means that the API server has no object with the name.
	ErrGone = errors.New("the object does not exist")
	// ErrContended means that other writers changed the object at each attempt to write, that all writes took too long,
	// or that too many requests wait. Nothing was granted: the client must retry.
	ErrContended = errors.New("others ask for the object, or change it, at the same time")
)

// Need says which request to the API server must come before the answer of a decision may be returned.
type Need uint8

const (
	// Confirm means that the object must be read from the API server: the answer does not change the ledger, but
	// depends on a ledger that may be outdated. Each object is read at most once a second.
	Confirm Need = iota
	// Store means that the ledger must be stored before the answer is returned.
	Store
	// Answer means that no request is needed: the answer is right whatever other processes write.
	Answer
)

// Config is the configuration of Statuses.
type Config[O client.Object, L any] struct {
	// Ledger returns the ledger stored in the object, and must not modify the object. Required.
	Ledger func(O) L
	// Store writes a ledger into the status of the given object. Store may modify the object. Required.
	Store func(O, L)
	// Kept compares got, the ledger in the API server's response to a write, with want, the written ledger. Kept
	// returns an error if the new entries are missing: a later request would then take the same share again. If Kept
	// is nil, the ledgers must be equal.
	Kept func(got, want L) error
	// Noun is the word for an object in errors; "object" if empty.
	Noun string
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Statuses store decisions in the statuses of objects of a kind. Statuses are safe for concurrent use. Make Statuses
// with New.
type Statuses[O client.Object, L any] struct {
	client client.Client
	live   client.Reader
	config Config[O, L]
	empty  O

	mu      sync.Mutex
	objects map[identity]*object[O, L]
	swept   time.Time
}

// identity identifies an object. It includes more than the UID because some fake clients set no UIDs.
type identity struct {
	client.ObjectKey

	uid types.UID
}

// New returns Statuses for the kind of empty, an object of the kind, such as &v1.Budget{}. c writes, and may read from
// a cache. live must not read from a cache. The error names a missing argument.
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

// successors is how often a request is repeated for a new object of the same name.
const successors = 3

// Ask calls decide for a request. If the Need of the decision is Store, Ask stores the changed ledger before
// returning the answer. name says what the request is about, such as a Pod: requests that are decided together are
// decided in the order of their names. decide returns the ledger after the request, the answer, and the Need; decide
// must not modify the object or the ledger. The ledger contains the shares of requests that are written together.
// decide is called again after each failed attempt, and Ask returns the answer of the last call. decide runs in
// another goroutine, but is not called any more after Ask has returned.
//
// If the object was replaced by another object with the same name, Ask decides on the new object. The error is
// ErrGone only if the API server has no such object. Other errors are ErrContended, and the errors of a failed read
// or write, of a cancelled context, or of an object that does not keep the stored ledger. After an error, the answer
// has no meaning, and nothing is granted. If the entry was stored nevertheless, the controller's next count removes
// the entry.
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
		given := new(A) // another goroutine writes to given until the request is answered
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
