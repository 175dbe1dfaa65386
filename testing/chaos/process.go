package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// Process is a simulated process of the program under test: all its memory is lost when the process dies.
type Process struct {
	// Cache is the cache of the process. Do not modify objects of the Cache.
	Cache *faultapi.Cache
	// Start numbers the processes of a schedule, from 1.
	Start int

	index     int
	many      bool
	beside    bool // the process runs one of the programs in Subject.Beside
	leads     bool
	turnstile faultapi.Turnstile
	live      *faultapi.Client
	armed     atomic.Bool // API calls wait for the schedule
	ctx       context.Context
	cancel    context.CancelFunc
	elected   chan struct{}
	running   sync.WaitGroup
	runnables []manager.Runnable

	mu    sync.Mutex
	tasks map[string]*Task
	ended []ended
	fatal error
}

// ended is a finished task, for the log of the schedule.
type ended struct {
	name, line string
	panicked   any
}

// startVerb is the verb of the pseudo call that stands for the start of a reconcile: the reconcile waits until the
// schedule releases the pseudo call.
const startVerb = "reconcile"

// Pass makes a call wait until the schedule releases the call. Calls during Setup do not wait. To simulate a request
// to another system, such as the container runtime of a Node, call Pass with the verb get and a resource that the
// server does not have.
func (p *Process) Pass(ctx context.Context, call faultapi.Call) faultapi.Fate {
	if !p.armed.Load() {
		return faultapi.Fate{}
	}
	return p.turnstile.Pass(ctx, call)
}

// Task returns the running task with a name, or nil.
func (p *Process) Task(name string) *Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tasks[name]
}

func (p *Process) begin(t *Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks[t.Name] = t
}

func (p *Process) end(name, line string, panicked any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, name)
	p.ended = append(p.ended, ended{name, line, panicked})
}

// takeEnded returns the tasks finished since the last call, in an order that does not depend on goroutines.
func (p *Process) takeEnded() []ended {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.ended
	p.ended = nil
	slices.SortStableFunc(out, func(a, b ended) int { return strings.Compare(a.name, b.name) })
	return out
}

func (p *Process) takeFatal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.fatal
	p.fatal = nil
	return err
}

func (p *Process) label() string {
	if !p.many {
		return ""
	}
	return fmt.Sprintf("process %d: ", p.index)
}

// boot starts a new process with the given index. The caches of the process may be stale.
func (w *World) boot(index int) {
	w.starts++
	w.forgive()
	lag := func(_ string, events int) int {
		if w.calm || w.Chance(50) {
			return 0
		}
		return w.rng.IntN(min(events, 12) + 1)
	}
	p := &Process{
		Cache: w.Server.Cache(lag), Start: w.starts, index: index, many: len(w.processes) > 1, beside: index >= w.plan.Replicas,
		elected: make(chan struct{}), tasks: map[string]*Task{},
	}
	p.Cache.Pause = synctest.Wait
	p.ctx, p.cancel = context.WithCancel(context.Background())
	w.processes[index] = p
	mgr := newManager(p, w.Server, w.plan.Scheme)
	if err := w.setup(p, mgr); err != nil {
		w.Failf("setup", "%v", err)
	}
	p.armed.Store(true)
	w.Logf("%sstarts", p.label())
	p.start(func(r manager.Runnable) bool { return !needsLeader(r) })
	if p.beside || index == w.leader() {
		w.lead(p)
	}
	w.harvest()
}

func (w *World) setup(p *Process, mgr manager.Manager) error {
	if p.beside {
		return w.subject.Beside[p.index-w.plan.Replicas](p.ctx, p, mgr)
	}
	return w.subject.Setup(p.ctx, mgr)
}

// leader returns the index of the leading process of the controllers, or of the first process if none leads.
func (w *World) leader() int {
	return max(0, slices.IndexFunc(w.processes[:w.plan.Replicas], func(p *Process) bool { return p != nil && p.leads }))
}

// lead starts the runnables of the leader. A program in Subject.Beside has no other replicas, so such a program
// always leads.
func (w *World) lead(p *Process) {
	if w.plan.Replicas > 1 && !p.beside {
		w.Logf("%sleads", p.label())
	}
	p.leads = true
	close(p.elected)
	p.start(needsLeader)
}

func needsLeader(r manager.Runnable) bool {
	l, ok := r.(manager.LeaderElectionRunnable)
	return !ok || l.NeedLeaderElection()
}

// syncPeriod is longer than client-go's wait of 100 ms between two checks of a handler's sync. Events are delivered
// afterPolls after such a check. Otherwise a queue's delay of 100 ms would end at the time of a check, and the order
// of goroutines would decide whether a worker takes the request before or after the end of the delay.
const (
	syncPeriod = 150 * time.Millisecond
	afterPolls = 7 * time.Millisecond
)

// start starts the chosen runnables, and calls their event handlers with the contents of the caches.
func (p *Process) start(chosen func(manager.Runnable) bool) {
	for i, r := range p.runnables {
		if !chosen(r) {
			continue
		}
		name := fmt.Sprintf("runnable %d", i)
		p.begin(&Task{Name: name, Process: p, Began: time.Now()})
		p.running.Go(func() { p.run(name, r) })
	}
	synctest.Wait()
	time.Sleep(afterPolls)
	p.Cache.Announce()
	time.Sleep(syncPeriod)
	synctest.Wait()
}

// run runs a runnable in a goroutine. If the runnable returns an error, the process ends, as with a real manager.
func (p *Process) run(name string, r manager.Runnable) {
	defer func() {
		if panicked := recover(); panicked != nil {
			p.end(name, name+" panicked", panicked)
		}
	}()
	err := r.Start(faultapi.WithTask(p.ctx, name))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.ctx.Err() == nil && p.fatal == nil {
		p.fatal = err
	}
	delete(p.tasks, name)
}

// kill ends a process: waiting calls are never carried out, and no goroutine of the process remains.
func (w *World) kill(index int, why error) {
	p := w.processes[index]
	if p == nil {
		return
	}
	w.processes[index] = nil
	p.cancel()
	p.turnstile.Break(why)
	synctest.Wait()
	if left := p.left(); left != "" {
		panic(fmt.Sprintf("%s outlives its process", left))
	}
}

// left returns the name of a task that is still running, or "" if there is none.
func (p *Process) left() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.tasks {
		return name
	}
	return ""
}

// crash ends a process and starts a new process. If the process was the leader, the next process becomes the leader.
func (w *World) crash(index int, why string) {
	p := w.processes[index]
	w.Logf("%sdies: %s", p.label(), why)
	w.kill(index, errors.New("the process has died"))
	if p.leads && !p.beside && w.plan.Replicas > 1 {
		if next := w.processes[(index+1)%w.plan.Replicas]; next != nil {
			w.lead(next)
		}
	}
	w.boot(index)
}

// gated is a Reconciler that begins when the schedule chooses so.
type gated struct {
	reconcile.Reconciler

	controller string
	process    *Process
}

func taskName(controller string, req types.NamespacedName) string {
	return controller + " " + strings.TrimPrefix(req.String(), "/")
}

// Reconcile waits for the schedule and then calls the wrapped Reconciler.
func (g gated) Reconcile(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
	name := taskName(g.controller, req.NamespacedName)
	ctx = faultapi.WithTask(ctx, name)
	wish := faultapi.Call{Verb: startVerb, Namespace: req.Namespace, Name: req.Name, Task: name}
	wish.Resource.Resource = g.controller
	if fate := g.process.turnstile.Pass(ctx, wish); fate.Before != nil {
		return reconcile.Result{}, fate.Before
	}
	defer func() {
		panicked := recover()
		line := fmt.Sprintf("%s done, again in %v", name, result.RequeueAfter)
		if err != nil {
			line = fmt.Sprintf("%s failed: %v", name, err)
		}
		g.process.end(name, line, panicked)
	}()
	return g.Reconciler.Reconcile(ctx, req)
}

// NewID returns a source of random names of five characters, derived from the seed and the number of started processes.
func (w *World) NewID() func() string {
	ids := rand.New(rand.NewPCG(w.seed, 1<<32+uint64(w.starts)))
	return func() string { return fmt.Sprintf("%05x", ids.IntN(1<<20)) }
}
