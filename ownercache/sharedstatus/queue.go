package sharedstatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// request is a pending call of Ask.
type request[O client.Object, L any] struct {
	name     string
	ctx      context.Context
	seen     O
	decide   func(object O, before L) (L, Need)
	answered chan error // the channel's buffer holds the answer
	// tries counts the failed attempts, weighted by their kind.
	tries int
}

// object is an object about which requests were made recently.
type object[O client.Object, L any] struct {
	key client.ObjectKey
	// waiting are the requests for the next write; users is the number of waiting requests and of requests being
	// decided. busy says that a goroutine is answering requests. Statuses.mu guards these fields.
	waiting []*request[O, L]
	users   int
	busy    bool
	used    time.Time
	// Only the deciding goroutine uses the fields below.
	turn[O, L]
}

const (
	// remembered is how long the records about an object are kept after the last request. After this time, every
	// cache is expected to show the last written version.
	remembered = time.Minute
	// crowd limits the number of requests about an object that are pending at the same time. Requests beyond the limit
	// fail at once, so that clients retry: a webhook has limited capacity for all namespaces, and requests waiting for
	// a single object must not use up the capacity.
	crowd = 64
	// moment is a short wait before the first decision. Requests made at the same time, such as the evictions of a
	// drain, are then decided together, and the answers depend on the requests' names instead of the scheduling of
	// goroutines.
	moment = 10 * time.Microsecond
)

// await waits for the answer to a request.
func (s *Statuses[O, L]) await(r *request[O, L], key client.ObjectKey) error {
	if err := r.ctx.Err(); err != nil {
		return fmt.Errorf("asking %s %s: %w", s.config.Noun, key, err)
	}
	o, err := s.enter(r, key)
	if err != nil {
		return err
	}
	defer s.leave(o, r)
	select {
	case err = <-r.answered:
		return err
	case <-r.ctx.Done():
	}
	select {
	case err = <-r.answered:
		return err
	default:
		return fmt.Errorf("waiting for other requests about %s %s, or for the write: %w", s.config.Noun, key, r.ctx.Err())
	}
}

// enter puts a request into the queue of its object, unless too many requests are in the queue.
func (s *Statuses[O, L]) enter(r *request[O, L], key client.ObjectKey) (*object[O, L], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := identity{key, r.seen.GetUID()}
	o := s.objects[of]
	if o == nil {
		o = &object[O, L]{key: key}
		s.objects[of] = o
	}
	if o.users >= crowd {
		return nil, ErrContended
	}
	o.users++
	o.waiting = append(o.waiting, r)
	if !o.busy {
		o.busy = true
		go func() {
			sleep(r.ctx, moment)
			s.work(o)
		}()
	}
	return o, nil
}

// leave removes a finished request, and the records of objects without recent requests.
func (s *Statuses[O, L]) leave(o *object[O, L], r *request[O, L]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Clock.Now()
	if i := slices.Index(o.waiting, r); i >= 0 {
		o.waiting = slices.Delete(o.waiting, i, i+1)
	}
	o.users--
	o.used = now
	if now.Sub(s.swept) < remembered {
		return
	}
	s.swept = now
	for of, o := range s.objects {
		if o.users == 0 && !o.busy && now.Sub(o.used) >= remembered {
			delete(s.objects, of)
		}
	}
}

// work answers the requests for an object until there are no more requests.
func (s *Statuses[O, L]) work(o *object[O, L]) {
	var batch []*request[O, L]
	for {
		if batch = s.gather(o, batch); len(batch) == 0 {
			return
		}
		ctx, stop := whileAnyWaits(batch)
		sleep(ctx, o.pause(s.config.Clock.Now(), o.key.Name, batch[0].name))
		stop()
		if batch = s.gather(o, batch); len(batch) == 0 {
			return
		}
		ctx, stop = whileAnyWaits(batch)
		batch = s.safely(ctx, o, batch)
		stop()
	}
}

// sleep waits for the duration d, but returns early if ctx ends, because no caller waits for an answer any more.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// gather adds the waiting requests to batch, the requests not answered yet, and removes requests whose callers no
// longer wait. The result is sorted by the number of failed attempts, the highest number first, and then by name.
func (s *Statuses[O, L]) gather(o *object[O, L], batch []*request[O, L]) []*request[O, L] {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch = slices.DeleteFunc(append(batch, o.waiting...), func(r *request[O, L]) bool { return r.ctx.Err() != nil })
	slices.SortStableFunc(batch, func(a, b *request[O, L]) int {
		return cmp.Or(cmp.Compare(b.tries, a.tries), strings.Compare(a.name, b.name))
	})
	o.waiting = nil
	o.busy = len(batch) > 0
	return batch
}

// safely calls attempt, and turns a panic of the caller's functions into an error, because the panic would end the
// whole process.
func (s *Statuses[O, L]) safely(ctx context.Context, o *object[O, L], batch []*request[O, L]) (rest []*request[O, L]) {
	defer func() {
		if p := recover(); p != nil {
			rest = nil
			answer(batch, fmt.Errorf("deciding about %s %s: panic: %v [recovered]", s.config.Noun, o.key, p))
		}
	}()
	return s.attempt(ctx, o, batch)
}

// answer ends all requests that have no answer yet.
func answer[O client.Object, L any](batch []*request[O, L], err error) {
	for _, r := range batch {
		select {
		case r.answered <- err:
		default:
		}
	}
}

// whileAnyWaits returns a context with the values of the first request's context. The context ends when no caller
// waits any more, so a client that disconnects does not cancel a write for other clients.
func whileAnyWaits[O client.Object, L any](batch []*request[O, L]) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(batch[0].ctx))
	var waiting atomic.Int32
	waiting.Store(int32(len(batch))) //nolint:gosec // a batch has at most crowd requests
	stops := make([]func() bool, len(batch))
	for i, r := range batch {
		stops[i] = context.AfterFunc(r.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel(context.Cause(r.ctx))
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(errors.New("the write is over"))
	}
}
