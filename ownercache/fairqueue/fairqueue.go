// Package fairqueue answers "how do I keep one namespace from holding up all the others?".
//
// All objects of a controller share its workers, the order of its queue and the bucket of its retries. A user with a
// thousand failing or slow objects, woken by annotations, has the objects of everybody else wait.
//
//	controller.Options{
//		MaxConcurrentReconciles: 12,
//		NewQueue:                fairqueue.New(4, 12),
//		RateLimiter:             fairqueue.PerNamespace(nil),
//	}
//
// [New] makes a queue that takes turns between namespaces and leaves a worker free for further namespaces.
// [PerNamespace] makes a limiter in which a namespace's failures delay its own retries alone. Queue and limiter are
// independent. Objects without a namespace share a common turn.
package fairqueue

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is controller-runtime's queue of requests.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Limiter is controller-runtime's limiter of retries.
type Limiter = workqueue.TypedRateLimiter[reconcile.Request]

// New returns a constructor for controller.Options.NewQueue. The queues hand out a request of each namespace in turn,
// namespaces without any request in work first, and requests of a namespace in the order of arrival. At most atOnce
// requests of a namespace are in work at a time; 0 and less stand for no bound. workers is the controller's
// MaxConcurrentReconciles. The last free worker is kept for a namespace without any request in work: if webhooks are
// slow in several namespaces, the requests of another namespace find a worker in sequence.
//
// In all else the queue keeps the promises of client-go's queue: a request is in the queue once, and nobody works on a
// request twice at a time. After Done, the caller must call Get next, as a controller's workers do: then a waiting
// namespace gets its turn.
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

// queue tells the turns about finished requests, unlike client-go's queue.
type queue struct {
	Queue

	turns *turns
}

// Done ends the work on a request.
func (q *queue) Done(item reconcile.Request) {
	q.turns.done(item.Namespace)
	q.Queue.Done(item)
}

// Len returns how many requests wait.
func (q *queue) Len() int { return q.turns.count() }

// turns is the storage of a queue: a first-in, first-out queue for each namespace. client-go calls turns under its own
// lock. done and count are called without that lock.
type turns struct {
	atOnce, workers int

	mu      sync.Mutex
	waiting map[string][]reconcile.Request
	order   []string       // the namespaces with requests, in the order of turns
	running map[string]int // requests in work
	all     int            // of all namespaces
}

// Touch does nothing: a request added again keeps its place.
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

// Len returns whether a request can be handed out now, as 1 or 0: client-go asks before Pop.
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next() < 0 {
		return 0
	}
	return 1
}

// next returns the place in order of the namespace with the next turn, or -1. A worker that has ended its work and
// takes another request leaves nothing for a waiting worker to take: either as many workers are free as before, or the
// request was the last of its namespace, and the namespace comes first.
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

// Pop hands out the next request. Len has reported a request before.
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
	all[0] = reconcile.Request{} // the array outlives the request
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

// PerNamespace returns a limiter with a limiter of newLimiter for each namespace, as long as a request of the namespace
// fails. Use PerNamespace as controller.Options.RateLimiter. The default limiter lets all namespaces share ten retries
// per second: each failure pushes everybody's next retry further away. newLimiter makes a new limiter each time; nil
// makes default limiters. The result is safe for concurrent use if the limiters are.
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

// failing is a namespace with retried requests.
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

// Forget says that a request is not retried any more.
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
