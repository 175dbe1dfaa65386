package rehearsal

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/testing/faultapi/faultmanager"
)

// queue is the work queue of a controller. A worker gets a request only when the rehearsal releases the request.
type queue struct {
	clock   *Clock
	limiter faultmanager.Limiter
	next    func() int64 // returns the next number for a request; all queues share the numbers

	hand    chan reconcile.Request
	done    chan struct{}
	asked   chan struct{} // closed when a worker has asked for the first request
	stopped chan struct{}
	once    sync.Once

	mu      sync.Mutex
	ready   []ticket
	dirty   map[reconcile.Request]bool
	running map[reconcile.Request]bool
	waiting map[reconcile.Request]time.Time
	ended   bool
}

// ticket is a request that is due, with its number.
type ticket struct {
	request reconcile.Request
	number  int64
}

func newQueue(clock *Clock, limiter faultmanager.Limiter, next func() int64) *queue {
	return &queue{
		clock: clock, limiter: limiter, next: next,
		hand: make(chan reconcile.Request), done: make(chan struct{}), asked: make(chan struct{}), stopped: make(chan struct{}),
		dirty: map[reconcile.Request]bool{}, running: map[reconcile.Request]bool{}, waiting: map[reconcile.Request]time.Time{},
	}
}

// Add makes a request due. A request that runs is due again at its end.
func (q *queue) Add(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(request)
}

func (q *queue) add(request reconcile.Request) {
	if q.ended || q.dirty[request] {
		return
	}
	q.dirty[request] = true
	if !q.running[request] {
		q.ready = append(q.ready, ticket{request, q.next()})
	}
}

// AddAfter makes a request due after a while. If a request is added with several times, the earliest applies.
func (q *queue) AddAfter(request reconcile.Request, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if wait <= 0 {
		q.add(request)
		return
	}
	at := q.clock.Now().Add(wait)
	if before, ok := q.waiting[request]; !ok || at.Before(before) {
		q.waiting[request] = at
	}
}

// AddRateLimited makes a request due after the limiter's wait.
func (q *queue) AddRateLimited(request reconcile.Request) {
	q.AddAfter(request, q.limiter.When(request))
}

// Forget tells the limiter that the request has succeeded.
func (q *queue) Forget(request reconcile.Request) { q.limiter.Forget(request) }

// NumRequeues returns how often the request has failed.
func (q *queue) NumRequeues(request reconcile.Request) int { return q.limiter.NumRequeues(request) }

// Len returns the number of requests that are due.
func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ready)
}

// Get waits until the rehearsal releases a request.
func (q *queue) Get() (request reconcile.Request, shutdown bool) {
	q.once.Do(func() { close(q.asked) })
	select {
	case request = <-q.hand:
		return request, false
	case <-q.stopped:
		return reconcile.Request{}, true
	}
}

// Done marks the end of a request's reconcile.
func (q *queue) Done(request reconcile.Request) {
	q.mu.Lock()
	delete(q.running, request)
	if q.dirty[request] {
		q.ready = append(q.ready, ticket{request, q.next()})
	}
	q.mu.Unlock()
	select {
	case q.done <- struct{}{}:
	case <-q.stopped:
	}
}

// ShutDown ends Get.
func (q *queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended = true
		close(q.stopped)
	}
}

// ShutDownWithDrain is ShutDown, because no request runs outside of the rehearsal.
func (q *queue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown reports whether ShutDown was called.
func (q *queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// first returns the number of the request that has been due for the longest time.
func (q *queue) first() (number int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		return 0, false
	}
	return q.ready[0].number, true
}

// take removes the first request that is due.
func (q *queue) take() reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	request := q.ready[0].request
	q.ready = q.ready[1:]
	delete(q.dirty, request)
	q.running[request] = true
	return request
}

// wake makes requests due whose wait is over, and returns the end of the next wait; zero if no request waits.
func (q *queue) wake() (next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	var over []reconcile.Request
	for request, at := range q.waiting {
		if !at.After(now) {
			over = append(over, request)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	slices.SortFunc(over, func(a, b reconcile.Request) int {
		return cmp.Or(q.waiting[a].Compare(q.waiting[b]), strings.Compare(a.String(), b.String()))
	})
	for _, request := range over {
		delete(q.waiting, request)
		q.add(request)
	}
	return next
}
