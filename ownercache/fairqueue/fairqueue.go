// Package fairqueue answers "how do I keep one namespace from holding up all the others?".
//
// All objects of a controller share its workers, its queue and its rate limiter for retries. One user with a thousand
// failing or slow objects, enqueued again and again by annotations, can make everybody else's objects wait.
//
//	controller.Options{
//		MaxConcurrentReconciles: 12,
//		NewQueue:                fairqueue.New(4, 12),
//		RateLimiter:             fairqueue.PerNamespace(nil),
//	}
//
// [New] makes a queue in which namespaces take turns, and in which the last free worker only takes requests of a
// namespace that occupies no worker yet. [PerNamespace] makes a rate limiter in which a namespace's failures delay
// only its own retries. Queue and rate limiter can be used separately. All cluster-scoped objects together count as a
// namespace.
package fairqueue

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the type of controller-runtime's work queue.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Limiter is the type of controller-runtime's rate limiter for retries.
type Limiter = workqueue.TypedRateLimiter[reconcile.Request]

// New returns a value for controller.Options.NewQueue. The queue returns requests of the namespaces in turn, first
// from namespaces with no request in progress; requests of a namespace are returned in the order of arrival. At most
// atOnce requests of a namespace are in progress at a time; 0 or less means no limit. workers is the controller's
// MaxConcurrentReconciles. The last free worker is kept for a namespace with no request in progress. So if slow
// webhooks occupy the workers for several namespaces, requests of another namespace still get this worker, one
// request after the other.
//
// Otherwise the queue behaves like client-go's queue: a request is in the queue at most once, and is never processed
// twice at the same time. After Done, the caller must call Get next, as a controller's workers do: Get lets a waiting
// namespace continue.
func New(atOnce, workers int) func(name string, limiter Limiter) Queue {
	return func(name string, limiter Limiter) Queue {
		t := &turns{
			atOnce: atOnce, workers: workers, waiting: map[string][]reconcile.Request{}, running: map[string]int{},
		}
		inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: t})
		delaying := workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: inner})
		limited := workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{DelayingQueue: delaying}
		return &queue{turns: t, Queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, limited)}
	}
}

// queue reports finished requests to turns, because client-go's queue does not.
type queue struct {
	Queue

	turns *turns
}

// Done marks a request as finished.
func (q *queue) Done(item reconcile.Request) {
	q.turns.done(item.Namespace)
	q.Queue.Done(item)
}

// Len returns the number of waiting requests.
func (q *queue) Len() int { return q.turns.count() }

// turns stores the waiting requests of a queue: a first-in, first-out list for each namespace. client-go holds the
// queue's lock when calling turns. done and count are called without this lock.
type turns struct {
	atOnce, workers int

	mu      sync.Mutex
	waiting map[string][]reconcile.Request
	order   []string       // the namespaces with waiting requests, in the order of their turns
	running map[string]int // number of requests in progress, by namespace
	all     int            // number of requests in progress in all namespaces
}

// Touch does nothing: a request that is added again keeps its position.
func (*turns) Touch(reconcile.Request) {}

// Push adds a new request.
func (t *turns) Push(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[item.Namespace]) == 0 {
		t.order = append(t.order, item.Namespace)
	}
	t.waiting[item.Namespace] = append(t.waiting[item.Namespace], item)
}

// Len returns 1 if a request can be returned now, otherwise 0: client-go calls Len before Pop.
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next() < 0 {
		return 0
	}
	return 1
}

// next returns the index, in the field order, of the namespace whose turn is next, or -1 if there is none. When a
// worker finishes a request and takes the next request, no other waiting worker loses the chance to take a request.
// Either the number of free workers stays the same, or the finished request was the last in progress of its
// namespace, and requests of such a namespace go first.
func (t *turns) next() int {
	if t.atOnce <= 0 {
		return min(len(t.order), 1) - 1
	}
	if i := slices.IndexFunc(t.order, func(namespace string) bool { return t.running[namespace] == 0 }); i >= 0 {
		return i
	}
	if t.workers-t.all < 2 {
		return -1
	}
	return slices.IndexFunc(t.order, func(namespace string) bool { return t.running[namespace] < t.atOnce })
}

// Pop returns the next request. client-go calls Pop only after Len has returned 1.
func (t *turns) Pop() reconcile.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.next()
	namespace := t.order[i]
	if i == 0 {
		t.order = t.order[1:]
	} else {
		t.order = slices.Delete(t.order, i, i+1)
	}
	all := t.waiting[namespace]
	item := all[0]
	all[0] = reconcile.Request{} // so that the array does not keep the request in memory
	if rest := all[1:]; len(rest) > 0 {
		t.waiting[namespace] = rest
		t.order = append(t.order, namespace)
	} else {
		delete(t.waiting, namespace)
	}
	t.running[namespace]++
	t.all++
	return item
}

func (t *turns) done(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.running[namespace]--; t.running[namespace] <= 0 {
		delete(t.running, namespace)
	}
}

func (t *turns) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, items := range t.waiting {
		n += len(items)
	}
	return n
}

// PerNamespace returns a rate limiter that has a limiter from newLimiter for each namespace with failing requests.
// Use PerNamespace as controller.Options.RateLimiter. Without PerNamespace, all namespaces share the ten retries per
// second of controller-runtime's default limiter, so each failure delays the next retry in every namespace. If
// newLimiter is nil, the limiters are controller-runtime's default limiters. The result is safe for concurrent use if
// the limiters are.
func PerNamespace(newLimiter func() Limiter) Limiter {
	if newLimiter == nil {
		newLimiter = workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]
	}
	return &perNamespace{newLimiter: newLimiter, namespaces: map[string]*failing{}}
}

type perNamespace struct {
	newLimiter func() Limiter

	mu         sync.Mutex
	namespaces map[string]*failing
}

// failing is a namespace with requests that are being retried.
type failing struct {
	Limiter

	requests map[reconcile.Request]bool
}

// When returns the wait before the next attempt at the request.
func (p *perNamespace) When(item reconcile.Request) time.Duration {
	p.mu.Lock()
	f := p.namespaces[item.Namespace]
	if f == nil {
		f = &failing{p.newLimiter(), map[reconcile.Request]bool{}}
		p.namespaces[item.Namespace] = f
	}
	f.requests[item] = true
	p.mu.Unlock()
	return f.Limiter.When(item)
}

// Forget says that a request will not be retried any more.
func (p *perNamespace) Forget(item reconcile.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.namespaces[item.Namespace]
	if f == nil {
		return
	}
	f.Limiter.Forget(item)
	delete(f.requests, item)
	if len(f.requests) == 0 {
		delete(p.namespaces, item.Namespace)
	}
}

// NumRequeues returns how often a request has been retried.
func (p *perNamespace) NumRequeues(item reconcile.Request) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.namespaces[item.Namespace]; f != nil {
		return f.Limiter.NumRequeues(item)
	}
	return 0
}
