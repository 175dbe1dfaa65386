package cloneset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"k8s.io/client-go/util/workqueue"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/faultapi"
	"github.com/workloadkit/workloadkit/ownerindex"
)

// world is everything that a schedule plays: the server with its nodes, one user, and the controller's process.
type world struct {
	rng     *rand.Rand
	verbose bool
	trace   []string
	failure error
	steps   int
	calls   int
	began   time.Time
	calm    bool // faults have stopped

	server *faultapi.Server
	nodes  *faultapi.Nodes
	user   *faultapi.Client

	setup   setup
	process *process
	history history
}

// process is one incarnation of the controller: all that is lost when it dies.
type process struct {
	reconciler *Reconciler
	finisher   *Finisher
	cache      *faultapi.Cache
	gate       *faultapi.Turnstile
	ctx        context.Context
	cancel     context.CancelFunc

	dirty   map[string]bool
	timers  map[string]time.Time
	running map[string]*task
	started bool
}

// task is one reconcile that runs, and the view it decides on.
type task struct {
	name string
	key  types.NamespacedName
	done atomic.Bool // a timer may end a task while the schedule looks on

	result ctrl.Result
	err    error
	died   any

	wrote   bool
	owner   *v1beta1.CloneSet
	pods    map[types.UID]*corev1.Pod
	now     time.Time
	taken   map[types.UID]bool // Pods that were available and that this task took out of service
	touched map[types.UID]bool // the same, and those that were not available
	gone    int                // Pods deleted although nobody named them and they are at the right revision
}

// lender is the part of a manager that the controllers ask for.
type lender struct {
	manager.Manager

	cache *faultapi.Cache
	live  client.Reader
}

func (l lender) GetAPIReader() client.Reader                     { return l.live }
func (l lender) GetCache() cache.Cache                           { return l.cache }
func (l lender) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

func (w *world) logf(format string, args ...any) {
	if w.verbose {
		w.trace = append(w.trace, fmt.Sprintf("%8.3fs v%d ", time.Since(w.began).Seconds(), w.server.Version())+fmt.Sprintf(format, args...))
	}
}

// failf ends the schedule.
func (w *world) failf(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.logf("FAILED: %v", w.failure)
	}
	panic(stopSchedule{})
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// boot starts a process with caches that may be behind.
func (w *world) boot() {
	lag := func(_ string, events int) int {
		if w.calm || w.chance(50) {
			return 0
		}
		return w.rng.IntN(min(events, 12) + 1)
	}
	p := &process{
		gate: &faultapi.Turnstile{}, cache: w.server.Cache(lag),
		dirty: map[string]bool{}, timers: map[string]time.Time{}, running: map[string]*task{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	ids := rand.New(rand.NewPCG(w.rng.Uint64(), 2))
	options := Options{Gates: w.setup.gates(), NewID: func() string { return fmt.Sprintf("%05x", ids.IntN(1<<20)) }}
	mgr := lender{cache: p.cache, live: w.server.Client(p.gate, nil)}
	r, err := newReconciler(p.ctx, mgr, w.server.Client(p.gate, p.cache), options)
	if err != nil {
		w.failf("starting: %v", err)
	}
	p.reconciler, p.finisher = r, &Finisher{r}
	w.process = p
	w.logf("boot")
	for _, resource := range p.cache.Resources() {
		w.wake(resource, p.cache.Relisted(resource))
	}
	w.launch(&task{name: "startup"}, func(ctx context.Context) (ctrl.Result, error) { return ctrl.Result{}, r.client.Start(ctx) })
}

// kill ends the process: calls that wait are never made, and nothing of it is left.
func (w *world) kill(why error) {
	p := w.process
	if p == nil {
		return
	}
	p.cancel()
	p.gate.Break(why)
	synctest.Wait()
	for name, t := range p.running {
		if !t.done.Load() {
			panic(fmt.Sprintf("task %s outlives its process", name))
		}
	}
	w.process = nil
}

// launch runs work in a goroutine until it stands at the turnstile, sleeps or ends.
func (w *world) launch(t *task, work func(context.Context) (ctrl.Result, error)) {
	w.process.running[t.name] = t
	ctx := faultapi.WithTask(w.process.ctx, t.name)
	go func() {
		defer func() {
			t.died = recover()
			t.done.Store(true)
		}()
		t.result, t.err = work(ctx)
	}()
	w.harvest()
}

// harvest waits until nothing runs any more and takes the results of what has ended.
func (w *world) harvest() {
	synctest.Wait()
	p := w.process
	for _, name := range slices.Sorted(maps.Keys(p.running)) {
		t := p.running[name]
		if !t.done.Load() {
			continue
		}
		delete(p.running, name)
		if t.died != nil {
			w.failf("%s panicked: %v", name, t.died)
		}
		if t.err != nil {
			w.logf("%s failed: %v", name, strings.ReplaceAll(t.err.Error(), "\n", "; "))
		} else {
			w.logf("%s done, again in %v", name, t.result.RequeueAfter)
		}
		w.finished(t)
	}
}

func (w *world) finished(t *task) {
	p := w.process
	switch {
	case t.name == "startup":
		if t.err != nil && !errors.Is(t.err, context.Canceled) {
			// The manager ends, and with it the process; its successor tries again.
			w.crash("start-up failed")
			return
		}
		p.started = true
	case t.err != nil:
		p.timers[t.name] = time.Now().Add(time.Second)
	case t.result.RequeueAfter > 0:
		p.timers[t.name] = time.Now().Add(t.result.RequeueAfter)
	default:
		delete(p.timers, t.name)
	}
}

func (w *world) crash(why string) {
	w.logf("crash: %s", why)
	w.kill(errors.New("the process has crashed"))
	w.boot()
}

// wake marks what the event handlers and predicates of Setup would queue.
func (w *world) wake(resource string, deltas []faultapi.Delta) {
	for _, d := range deltas {
		switch resource {
		case "clonesets":
			w.wakeOwner(d)
		case "pods":
			w.wakeController(d)
			w.wakePod(d)
		case "persistentvolumeclaims":
			w.wakeController(d)
		}
	}
}

func (w *world) wakeOwner(d faultapi.Delta) {
	if d.New == nil {
		w.process.reconciler.client.Forget(d.Old.GetUID())
		return
	}
	w.process.dirty["owner "+d.New.GetName()] = true
}

func (w *world) wakePod(d faultapi.Delta) {
	if d.New == nil {
		w.process.reconciler.forgetPod(d.Old.GetUID())
		return
	}
	w.process.dirty["pod "+d.New.GetName()] = true
}

func (w *world) wakeController(d faultapi.Delta) {
	h := ownerindex.EnqueueController(kind().GroupKind(), nil)
	q := &wakeQueue{dirty: w.process.dirty}
	ctx := context.Background()
	switch {
	case d.Old == nil:
		h.Create(ctx, event.CreateEvent{Object: d.New}, q)
	case d.New == nil:
		h.Delete(ctx, event.DeleteEvent{Object: d.Old}, q)
	default:
		h.Update(ctx, event.UpdateEvent{ObjectOld: d.Old, ObjectNew: d.New}, q)
	}
}

// wakeQueue takes what event handlers add.
type wakeQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	dirty map[string]bool
}

func (q *wakeQueue) Add(r reconcile.Request) { q.dirty["owner "+r.Name] = true }

// due returns the keys that may be worked on now.
func (w *world) due() []string {
	p := w.process
	now := time.Now()
	names := map[string]bool{}
	for name := range p.dirty {
		names[name] = true
	}
	for name, at := range p.timers {
		if !at.After(now) {
			names[name] = true
		}
	}
	for name := range p.running {
		delete(names, name)
	}
	return slices.Sorted(maps.Keys(names))
}

// work starts the reconcile of a key.
func (w *world) work(name string) {
	p := w.process
	delete(p.dirty, name)
	delete(p.timers, name)
	what, object, _ := strings.Cut(name, " ")
	t := &task{name: name, key: types.NamespacedName{Namespace: namespace, Name: object}, now: time.Now(), taken: map[types.UID]bool{}, touched: map[types.UID]bool{}}
	req := ctrl.Request{NamespacedName: t.key}
	w.logf("work on %s", name)
	if what == "pod" {
		w.launch(t, func(ctx context.Context) (ctrl.Result, error) { return p.finisher.Reconcile(ctx, req) })
		return
	}
	w.snapshot(t)
	w.launch(t, func(ctx context.Context) (ctrl.Result, error) { return p.reconciler.Reconcile(ctx, req) })
}

// snapshot keeps what the cache shows the task as it begins: the view that it will decide on.
func (w *world) snapshot(t *task) {
	var cs v1beta1.CloneSet
	if err := w.process.cache.Get(context.Background(), t.key, &cs); err != nil {
		return
	}
	t.owner = &cs
	t.pods = map[types.UID]*corev1.Pod{}
	for _, pod := range w.process.reconciler.pods.Of(t.owner.UID) {
		t.pods[pod.UID] = pod
	}
}

// gates are the feature gates of the schedule.
func (s setup) gates() map[apps.Gate]bool {
	gates := apps.DefaultGates()
	gates[apps.GateInPlaceWorkloadVerticalScaling] = true
	gates[apps.GateCloneSetPartitionRollback] = s.rollback
	return gates
}
