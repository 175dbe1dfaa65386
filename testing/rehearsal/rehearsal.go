package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/testing/faultapi"
	"github.com/workloadkit/workloadkit/testing/faultapi/faultmanager"
)

// Config describes the simulated cluster of a rehearsal. Scheme, Server and Clock are required.
type Config struct {
	// Scheme must know the kinds of Server.
	Scheme *runtime.Scheme
	// Server has the objects, and takes its time from Clock.
	Server *faultapi.Server
	// Clock is the clock of Server and controllers.
	Clock *Clock
	// ReadyAfter returns how long after its start a container becomes ready; ok is false for a container that stays
	// unready. If ReadyAfter is nil, a container becomes ready after a second, unless the container was unready
	// before the rehearsal.
	ReadyAfter func(pod *corev1.Pod, c faultapi.Unready) (after time.Duration, ok bool)
	// EndsAfter is how long a deleted Pod takes to end; 0 means a second.
	EndsAfter time.Duration
	// Mutate changes a Pod before its creation, as the webhooks for Pods do. Optional.
	Mutate func(ctx context.Context, pod *corev1.Pod) error
	// Outside does the work of other clients, such as a volume's provisioner, and reports whether anything has
	// changed. Optional.
	Outside func(ctx context.Context) (changed bool)
	// Unknown reports whether the labels of a Node are unknown. Every Pod fits such a Node. Optional.
	Unknown func(*corev1.Node) bool
	// Quiet is the simulated time without any change after which the rehearsal is over; 0 means 15 minutes. Quiet
	// must be longer than every wait of the controllers.
	Quiet time.Duration
	// Most is the largest number of reconciles, and of writes; 0 means 100,000.
	Most int
}

func (c *Config) complete() error {
	if c.Scheme == nil || c.Server == nil || c.Clock == nil {
		return errors.New("rehearsal: a scheme, a server and a clock are required")
	}
	if c.ReadyAfter == nil {
		c.ReadyAfter = func(_ *corev1.Pod, c faultapi.Unready) (time.Duration, bool) { return time.Second, !c.Adopted }
	}
	c.EndsAfter = cmp.Or(c.EndsAfter, time.Second)
	c.Quiet = cmp.Or(c.Quiet, 15*time.Minute)
	c.Most = cmp.Or(c.Most, 100000)
	return nil
}

// Write is a write of a controller that has changed an object.
type Write struct {
	// At is the simulated time.
	At time.Time
	// Controller is the name of the controller. Object is the reconciled object.
	Controller string
	Object     types.NamespacedName
	Call       faultapi.Call
	// Before is nil for a created object, After for a deleted object. Both belong to the server, so do not modify them.
	Before, After client.Object
}

// Rehearsal runs controllers on a server. Make a Rehearsal with New; its methods must not be called at the same time.
type Rehearsal struct {
	config  Config
	cache   *faultapi.Cache
	nodes   *nodes
	manager *faultmanager.Manager
	journal *journal
	numbers atomic.Int64
	elected chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	runnables []manager.Runnable
	queues    []*queue
	fatal     error

	garbage bool  // an object was deleted since the last garbage collection
	version int64 // the server's version when the clock was last about to advance
	asleep  time.Duration
}

// New returns a Rehearsal. Add the controllers to its Manager, and call Run.
func New(config Config) (*Rehearsal, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	r := &Rehearsal{config: config, cache: config.Server.Cache(nil), elected: make(chan struct{})}
	r.journal = &journal{server: config.Server, clock: config.Clock}
	r.nodes = newNodes(config.Server, &r.config)
	writes := config.Server.Client(r.journal, r.cache)
	r.manager = faultmanager.New(faultmanager.Parts{
		Scheme: config.Scheme, Cache: r.cache, Client: &mutating{writes, config.Mutate}, Live: config.Server.Client(r.journal, nil),
		Elected: r.elected, Add: r.add,
	})
	return r, nil
}

// Manager returns the manager to which controllers are added before Run.
func (r *Rehearsal) Manager() manager.Manager { return r.manager }

// Writes returns the writes of the controllers so far.
func (r *Rehearsal) Writes() []Write {
	r.journal.close()
	return r.journal.writes
}

// Errors returns the last error of each reconciled object whose last reconcile has failed, by controller and object.
func (r *Rehearsal) Errors() map[string]error { return r.journal.failed }

// add stores a runnable, and makes a controller use a queue of the rehearsal.
func (r *Rehearsal) add(run manager.Runnable) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runnables = append(r.runnables, run)
	c, ok := run.(controller.Controller)
	if !ok {
		return nil
	}
	err := faultmanager.WrapReconciler(c, func(name string, inner reconcile.Reconciler) reconcile.Reconciler {
		return &recorded{inner, name, r.journal}
	})
	if err != nil {
		return err
	}
	return faultmanager.SetQueue(c, func(_ string, limiter faultmanager.Limiter) faultmanager.Queue {
		q := newQueue(r.config.Clock, limiter, func() int64 { return r.numbers.Add(1) })
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queues = append(r.queues, q)
		return q
	})
}

// ErrEndless means that the controllers still had work after the largest number of reconciles or writes.
var ErrEndless = errors.New("the controllers do not come to rest")

// Run runs the controllers until no work is left, and then stops the controllers. Run can be called once. The error
// is ErrEndless, the error of ctx, or an error about a controller that does not start.
func (r *Rehearsal) Run(ctx context.Context) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer func() {
		r.stop()
		r.running.Wait()
	}()
	if err := r.start(ctx); err != nil {
		return err
	}
	r.nodes.begin()
	for n := 0; n < r.config.Most; {
		r.deliver()
		if q := r.due(); q != nil {
			n++
			if err := r.work(ctx, q); err != nil {
				return err
			}
			if writes := r.journal.len(); writes > r.config.Most {
				return fmt.Errorf("%w after %d writes", ErrEndless, writes)
			}
			continue
		}
		if r.others(ctx) {
			r.asleep = 0
			continue
		}
		if !r.sleep() {
			return nil
		}
	}
	return fmt.Errorf("%w after %d reconciles", ErrEndless, r.config.Most)
}

// poll is the interval at which the start of the controllers is checked. startLimit is how long the start may take.
const (
	poll       = time.Millisecond
	startLimit = 30 * time.Second
)

// start starts all runnables, and returns when each controller has asked for work.
func (r *Rehearsal) start(ctx context.Context) error {
	controllers := 0
	close(r.elected)
	var others sync.WaitGroup
	for _, run := range r.runnables {
		if _, ok := run.(controller.Controller); ok {
			controllers++
			r.running.Go(func() { r.run(ctx, run) })
			continue
		}
		others.Add(1)
		r.running.Go(func() {
			defer others.Done()
			r.run(ctx, run)
		})
	}
	limit, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("the controllers do not start"))
	defer cancel()
	started := make(chan struct{})
	go func() {
		others.Wait()
		close(started)
	}()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-limit.Done():
			return context.Cause(limit)
		case <-ticker.C:
		}
		r.cache.Announce()
		r.bookmark()
		if err := r.failure(); err != nil || r.asked() == controllers && isClosed(started) {
			return err
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (r *Rehearsal) run(ctx context.Context, run manager.Runnable) {
	if err := run.Start(ctx); err != nil && ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fatal = errors.Join(r.fatal, err)
	}
}

func (r *Rehearsal) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fatal
}

// asked returns the number of controllers whose workers wait for requests.
func (r *Rehearsal) asked() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.queues {
		if isClosed(q.asked) {
			n++
		}
	}
	return n
}

// deliver shows all events of the server to the controllers.
func (r *Rehearsal) deliver() {
	for _, resource := range r.cache.Resources() {
		behind := r.cache.Behind(resource)
		if behind == 0 {
			continue
		}
		r.asleep = 0
		for _, delta := range r.cache.Deliver(resource, behind) {
			r.garbage = r.garbage || delta.Type == watch.Deleted || delta.New != nil && delta.New.GetDeletionTimestamp() != nil
		}
	}
	r.bookmark()
}

func (r *Rehearsal) bookmark() {
	for _, resource := range r.cache.Resources() {
		r.cache.Bookmark(resource)
	}
}

// due returns the queue with the request that has been due for the longest time, or nil.
func (r *Rehearsal) due() (found *queue) {
	best := int64(0)
	for _, q := range r.queues {
		if number, ok := q.first(); ok && (found == nil || number < best) {
			found, best = q, number
		}
	}
	return found
}

// work runs a reconcile to its end.
func (r *Rehearsal) work(ctx context.Context, q *queue) error {
	request := q.take()
	select {
	case q.hand <- request:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.journal.close()
	return nil
}

// others lets the scheduler, the kubelets, the garbage collector and all other clients work, and reports whether
// anything has changed.
func (r *Rehearsal) others(ctx context.Context) bool {
	changed := r.nodes.step()
	if r.config.Outside != nil {
		changed = r.config.Outside(ctx) || changed
	}
	if r.garbage {
		r.garbage = false
		changed = r.config.Server.CollectGarbage() || changed
	}
	return changed
}

// sleep advances the clock to the end of the next wait. The result is false if there is no wait, or if nothing has
// changed for the time Quiet.
func (r *Rehearsal) sleep() bool {
	now := r.config.Clock.Now()
	next := r.nodes.wake()
	if version := r.config.Server.Version(); version != r.version {
		r.version = version
		return true
	}
	for _, q := range r.queues {
		if at := q.wake(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if r.due() != nil {
		return true
	}
	if next.IsZero() || r.asleep >= r.config.Quiet {
		return false
	}
	r.asleep += next.Sub(now)
	r.config.Clock.advance(next)
	return true
}

// mutating is a client that changes Pods before their creation, as the Pod webhook does.
type mutating struct {
	*faultapi.Client

	mutate func(context.Context, *corev1.Pod) error
}

// Create creates an object; a Pod is changed first.
func (m *mutating) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if pod, ok := obj.(*corev1.Pod); ok && m.mutate != nil {
		if err := m.mutate(ctx, pod); err != nil {
			return err
		}
	}
	return m.Client.Create(ctx, obj, opts...)
}

func compareWaits(a, b *wait) int {
	return cmp.Or(strings.Compare(a.key.String(), b.key.String()), strings.Compare(string(a.uid), string(b.uid)), strings.Compare(a.container, b.container))
}
