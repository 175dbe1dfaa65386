package chaos

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// World is the state of a schedule. A World is not safe for concurrent use: a Subject's functions are called one at a
// time.
type World struct {
	// Server is the API server with the objects.
	Server *faultapi.Server
	// Nodes simulate scheduler and kubelets.
	Nodes *faultapi.Nodes
	// User is a client whose calls never fail and whose reads are always up to date.
	User *faultapi.Client

	plan    *Plan
	subject Subject
	seed    uint64
	rng     *rand.Rand
	began   time.Time
	calm    bool // no faults in the step
	over    bool // no more faults, except errorsLeft errors after the last change by users

	errorsLeft int
	processes  []*Process
	starts     int
	steps      int
	requests   int     // number of requests of all tasks
	writes     int     // number of writes of all tasks
	idle       bool    // nothing has changed, and controllers should send no requests
	asked      []asked // requests that reconciles have sent nevertheless
	refused    map[refusedWrite][]time.Time

	beside    sync.Mutex
	trace     *[]string
	violation *Violation
}

// stopSchedule is the panic value that ends a schedule after a violation was recorded.
type stopSchedule struct{}

// Failf records a broken rule and ends the schedule: Failf does not return.
func (w *World) Failf(rule, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Rule: rule, Message: fmt.Sprintf(format, args...)}
		w.Logf("BROKEN %v", w.violation)
	}
	panic(stopSchedule{})
}

// blob matches encoded bytes, such as keys and certificates. Such bytes differ in each run, and do not help the
// reader of a log.
var blob = regexp.MustCompile(`[A-Za-z0-9+/]{60,}=*`)

// Logf adds a line to the log of the schedule, without encoded bytes.
func (w *World) Logf(format string, args ...any) {
	if w.trace != nil {
		line := fmt.Sprintf("%8.3fs v%d ", time.Since(w.began).Seconds(), w.Server.Version()) + fmt.Sprintf(format, args...)
		*w.trace = append(*w.trace, blob.ReplaceAllString(strings.ReplaceAll(line, "\n", "; "), "<data>"))
	}
}

// Rand returns the random source of the step, which depends only on the seed and the step's number.
func (w *World) Rand() *rand.Rand { return w.rng }

// Chance returns true at random, with the given probability in percent.
func (w *World) Chance(percent int) bool { return w.rng.IntN(100) < percent }

// Processes returns the running processes, always in the same order.
func (w *World) Processes() []*Process {
	return slices.DeleteFunc(slices.Clone(w.processes), func(p *Process) bool { return p == nil })
}

// Over reports whether the schedule makes no more faults.
func (w *World) Over() bool { return w.over }

// Sleep advances the clock. API calls stay blocked during this time, but timers run. If d is a second or more, kubelets
// first start and restart containers: a kubelet acts at once on the Pods that it knows, although the kubelet may learn
// of changes and report changes late.
func (w *World) Sleep(d time.Duration) {
	if d >= time.Second {
		w.Nodes.RunAll()
	}
	w.meet()
	time.Sleep(d)
	w.harvest()
}

// Beside returns the lock for goroutines outside of the schedule, such as the goroutines of a simulated container
// runtime. Such a goroutine must hold the lock while it reads or changes the World, its Nodes and its Subject.
func (w *World) Beside() sync.Locker { return &w.beside }

// wait returns when all goroutines are blocked.
func (w *World) wait() {
	w.meet()
	synctest.Wait()
	w.meet()
}

// meet tells the race detector that goroutines outside of the schedule run only while the schedule waits. The race
// detector does not know two facts: synctest.Wait returns only after goroutines have ended, and a goroutine woken by
// a timer runs after the steps that precede the sleep.
func (w *World) meet() {
	w.beside.Lock()
	defer w.beside.Unlock()
}

// enter sets the random source of a step.
func (w *World) enter(step int, calm bool) {
	w.rng = rand.New(rand.NewPCG(w.seed, uint64(step)))
	w.calm = calm || w.over
}

// harvest waits until all goroutines are blocked, and checks the tasks that have finished since the last call.
func (w *World) harvest() {
	w.wait()
	for i, p := range w.processes {
		if p == nil {
			continue
		}
		for _, e := range p.takeEnded() {
			w.Logf("%s%s", p.label(), e.line)
			if e.panicked != nil {
				w.Failf("panic", "%s: %v", e.name, e.panicked)
			}
		}
		if err := p.takeFatal(); err != nil {
			w.crash(i, "it has ended: "+err.Error())
		}
	}
}
