package sharedstatus

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// turn is the state, for a single object, of the goroutine that decides the requests for the object and writes the
// ledger.
type turn[O client.Object, L any] struct {
	newest O
	known  bool
	// asks says that the object must be read from the API server before the next decision. confirmed is when the object
	// was last read from the API server.
	asks      bool
	confirmed time.Time
	// failed counts the failed attempts since the last write that certainly succeeded; overtaken is when the last failed
	// attempt began.
	failed    int
	overtaken time.Time
	// stored is the time of the last write, and gap the time to wait before the next write.
	stored time.Time
	gap    time.Duration
}

const (
	// attempts is how often a request is decided again after a conflict, within about half a second. retries is the
	// length of the first pause, and each further pause is longer by the same amount. The pauses are short, so that a
	// process whose write failed writes again before other processes do. dear is the weight of a slow write, or of a
	// write without a response, compared with a conflict.
	attempts = 20
	dear     = 3
	retries  = time.Millisecond
	// shortest and longest bound the gap between two writes: during the gap requests queue up, and other processes can
	// write. The gap grows with conflicts. A writer whose write had a conflict does not wait for the gap.
	shortest = 12 * time.Millisecond
	longest  = 80 * time.Millisecond
	// calm is the time after a conflict during which the cache is considered stale.
	calm = time.Second
	// confirms is how long a read from the API server stays valid if nothing is written. A cache may be stale for
	// longer than this time.
	confirms = time.Second
	// prompt is the longest duration of a write after which its decision is still valid: entries of the ledger
	// expire, and their times are from before the write. If the writes of all attempts take longer than prompt, the
	// last attempt's write may take up to tolerable.
	prompt    = time.Second
	tolerable = 3 * time.Second
)

// errReplaced means that another object of the same name has replaced the object.
var errReplaced = errors.New("the object was replaced")

// errNotKept means that the API server's response to a write has a different ledger than the write.
var errNotKept = errors.New("the ledger was not kept")

// pause returns the time until the next attempt. During the pause, requests queue up and other processes can write to
// the object. After a failure, the time depends on the name of the first request, which no other process has, so that
// two processes do not conflict again and again. Otherwise the time depends on the object, so that a client that
// needs several objects does not meet pauses of all objects at the same moment.
func (t *turn[O, L]) pause(now time.Time, object, first string) time.Duration {
	if t.failed > 0 {
		most := retries * time.Duration(min(t.failed, attempts))
		return most + spread(most/2, first, t.failed)
	}
	gap := max(t.gap, shortest)
	return min(max(t.stored.Add(gap).Sub(now), retries), gap) + spread(retries, object, 0)
}

// spread returns a fraction of the duration most. The fraction is pseudo-random and depends only on name and n.
func spread(most time.Duration, name string, n int) time.Duration {
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, name, n)
	return most * time.Duration(hash.Sum32()%1024) / 1024
}

// fails records an attempt that has not stored the ledger, or may not have stored the ledger.
func (t *turn[O, L]) fails(at time.Time) {
	t.overtaken, t.asks = at, true
	t.failed++
	t.gap = min(max(2*t.gap, shortest), longest)
}

// writes records the stored object after a successful write.
func (t *turn[O, L]) writes(stored O, at time.Time) {
	switch {
	case at.Sub(t.overtaken) >= calm:
		t.gap = shortest
	case t.failed == 0:
		t.gap = max(t.gap*3/4, shortest)
	}
	t.newest, t.known, t.stored, t.failed = stored, true, at, 0
}

// attempt answers the requests and stores the ledger in a single write. rest are the requests that must be decided
// again.
func (s *Statuses[O, L]) attempt(ctx context.Context, o *object[O, L], batch []*request[O, L]) (rest []*request[O, L]) {
	base, err := s.base(ctx, o, batch)
	if err != nil {
		answer(batch, err)
		return nil
	}
	began := s.config.Clock.Now()
	ledger, held, then := s.decide(base, batch)
	switch {
	case then == Confirm && began.Sub(o.confirmed) >= confirms:
		// The object must be read from the API server: without a write, no conflict would show that the object is stale,
		// and another process may have stored an entry for the same request.
		o.asks = true
		return held
	case then != Store:
		answer(held, nil)
		return nil
	}
	stored, err := s.store(ctx, base, ledger)
	took := s.config.Clock.Since(began)
	switch {
	case err == nil:
		o.writes(stored, began.Add(took))
		if took < prompt {
			answer(held, nil)
			return nil
		}
		// The write took so long that the new entries may soon expire. The requests are decided again at once; if the
		// entries are still valid, the next decision keeps the entries.
		o.stored = time.Time{}
		var last error
		if took >= tolerable {
			last = ErrContended
		}
		return again(held, dear, last)
	case apierrors.IsConflict(err):
		o.fails(began)
		return again(held, 1, ErrContended)
	case apierrors.IsNotFound(err): // also the response if the kind has no status subresource
		_, gone := s.ask(ctx, o, base)
		if gone == nil {
			gone = fmt.Errorf("patching the status of %s %s, which its CRD must have as a subresource: %w", s.config.Noun, o.key, err)
		}
		answer(held, gone)
		return nil
	case errors.Is(err, errNotKept), isRefusal(err), ctx.Err() != nil:
		answer(held, err)
		return nil
	}
	o.fails(began) // The write may have happened, or may still happen.
	return again(held, dear, err)
}

// again returns the requests that may be decided again, and answers all others with the error of their last attempt.
func again[O client.Object, L any](held []*request[O, L], weight int, last error) []*request[O, L] {
	return slices.DeleteFunc(held, func(r *request[O, L]) bool {
		r.tries += weight
		if r.tries <= attempts {
			return false
		}
		answer([]*request[O, L]{r}, last)
		return true
	})
}

// base returns the newest known version of the object.
func (s *Statuses[O, L]) base(ctx context.Context, o *object[O, L], batch []*request[O, L]) (O, error) {
	base := batch[0].seen
	for _, r := range batch[1:] {
		if isOlder(base, r.seen) {
			base = r.seen
		}
	}
	if o.known && isOlder(base, o.newest) {
		base = o.newest
	}
	if !o.asks && (o.overtaken.IsZero() || s.config.Clock.Since(o.overtaken) >= calm) {
		return base, nil
	}
	return s.ask(ctx, o, base)
}

// ask reads the object from the API server.
func (s *Statuses[O, L]) ask(ctx context.Context, o *object[O, L], base O) (O, error) {
	newest, err := s.get(ctx, s.live, o.key)
	switch {
	case err != nil:
		return newest, err
	case newest.GetUID() != base.GetUID(): // another object of the same name has a queue of its own
		return newest, errReplaced
	}
	o.newest, o.known, o.asks, o.confirmed = newest, true, false, s.config.Clock.Now()
	return newest, nil
}

// decide decides the requests one after the other, and answers a request at once if the answer needs neither a read
// nor a write. held are the requests that need a read or a write, and then is the greatest of their Needs.
func (s *Statuses[O, L]) decide(base O, batch []*request[O, L]) (ledger L, held []*request[O, L], then Need) {
	present := s.config.Ledger(base)
	ledger, then = present, Answer
	for _, r := range batch {
		after, needs := r.decide(base, ledger)
		if err := s.misused(needs, ledger, after); err != nil {
			answer([]*request[O, L]{r}, err)
			continue
		}
		if needs == Answer && then == Store {
			// The answer may depend on the entry of an earlier request.
			if _, alone := r.decide(base, present); alone != Answer {
				_, _ = r.decide(base, ledger)
				held = append(held, r)
				continue
			}
		}
		switch needs {
		case Answer:
			answer([]*request[O, L]{r}, nil)
			continue
		case Store:
			ledger, then = after, Store
		case Confirm:
			if then == Answer {
				then = Confirm
			}
		}
		held = append(held, r)
	}
	return ledger, held, then
}

// misused returns an error if a decision has changed the ledger although its Need says that nothing must be stored:
// the changed ledger would not be stored, so the next decision would grant the same share again.
func (s *Statuses[O, L]) misused(needs Need, before, after L) error {
	switch {
	case needs == Store:
		return nil
	case needs > Answer:
		return fmt.Errorf("sharedstatus: decide about %s needs %d, which is no Need", s.config.Noun, needs)
	}
	if err := s.config.Kept(after, before); err != nil {
		return fmt.Errorf("sharedstatus: decide has changed the ledger of %s, and does not need Store: %w", s.config.Noun, err)
	}
	return nil
}

// store writes the ledger, unless the object has changed since the decision.
func (s *Statuses[O, L]) store(ctx context.Context, base O, ledger L) (O, error) {
	key := client.ObjectKeyFromObject(base)
	after, _ := base.DeepCopyObject().(O) // the copy has the same type
	s.config.Store(after, ledger)
	if err := s.config.Kept(s.config.Ledger(after), ledger); err != nil {
		return after, fmt.Errorf("Config.Store and Config.Ledger do not agree on %s %s: %w: %w", s.config.Noun, key, errNotKept, err)
	}
	err := s.client.Status().Patch(ctx, after, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return after, fmt.Errorf("storing the ledger of %s %s: %w", s.config.Noun, key, err)
	}
	if err := s.config.Kept(s.config.Ledger(after), ledger); err != nil {
		return after, fmt.Errorf("the API server does not store the ledger of %s %s; is a field missing in its schema: %w: %w", s.config.Noun, key, errNotKept, err)
	}
	return after, nil
}
