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

// World is everything in a schedule. A World is not safe for concurrent use: a Subject's functions are called singly.
type World struct {
	// Server holds the objects.
	Server *faultapi.Server
	// Nodes are scheduler and kubelets.
	Nodes *faultapi.Nodes
	// User is a client that never fails and sees everything at once.
	User *faultapi.Client

	plan    *Plan
	subject Subject
	seed    uint64
	rng     *rand.Rand
	began   time.Time
	calm    bool // no faults in the step
	over    bool // no faults any more, apart from errorsLeft after the last edit

	errorsLeft int
	processes  []*Process
	starts     int
	steps      int
	requests   int     // of all tasks
	writes     int     // of all tasks
	idle       bool    // everything is at rest, and nothing should be asked
	asked      []asked // what reconciles have asked all the same
	refused    map[refusedWrite][]time.Time

	beside    sync.Mutex
	trace     *[]string
	violation *Violation
}

// stopSchedule unwinds a schedule with a noted violation.
type stopSchedule struct{}

// Failf notes a broken rule and ends the schedule: Failf does not return.
func (w *World) Failf(rule, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Rule: rule, Message: fmt.Sprintf(format, args...)}
		w.Logf("BROKEN %v", w.violation)
	}
	panic(stopSchedule{})
}

// blob matches encoded bytes, such as keys and certificates. Such bytes differ each time, and tell a reader nothing.
var blob = regexp.MustCompile(`[A-Za-z0-9+/]{60,}=*`)

// Logf adds a line to the story of the schedule, without encoded bytes.
func (w *World) Logf(format string, args ...any) {
	if w.trace != nil {
		line := fmt.Sprintf("%8.3fs v%d ", time.Since(w.began).Seconds(), w.Server.Version()) + fmt.Sprintf(format, args...)
		*w.trace = append(*w.trace, blob.ReplaceAllString(strings.ReplaceAll(line, "\n", "; "), "<data>"))
	}
}

// Rand draws the events of the step, from the seed and the step's number alone.
func (w *World) Rand() *rand.Rand { return w.rng }

// Chance is true in the given percentage of cases.
func (w *World) Chance(percent int) bool { return w.rng.IntN(100) < percent }

// Processes returns the running processes, always in the same order.
func (w *World) Processes() []*Process {
	return slices.DeleteFunc(slices.Clone(w.processes), func(p *Process) bool { return p == nil })
}

// Over reports whether faults have stopped.
func (w *World) Over() bool { return w.over }

// Sleep lets time pass. Calls wait meanwhile, timers run. A kubelet acts at once on its view, though its view and its
// reports may be late: no second passes with a container in need of a restart.
func (w *World) Sleep(d time.Duration) {
	if d >= time.Second {
		w.Nodes.RunAll()
	}
	w.meet()
	time.Sleep(d)
	w.harvest()
}

// Beside returns the lock for goroutines beside the schedule, such as a simulated container runtime: such a goroutine
// reads and changes the World, its Nodes and its Subject under the lock.
func (w *World) Beside() sync.Locker { return &w.beside }

// wait returns after nothing runs any more.
func (w *World) wait() {
	w.meet()
	synctest.Wait()
	w.meet()
}

// meet tells the race detector that goroutines beside the schedule run only while the schedule waits. The race detector
// does not know two orders: synctest.Wait returns after the ends of goroutines, and a goroutine woken by a timer runs
// after the steps before the sleep.
func (w *World) meet() {
	w.beside.Lock()
	defer w.beside.Unlock()
}

// enter makes the dice of a step.
func (w *World) enter(step int, calm bool) {
	w.rng = rand.New(rand.NewPCG(w.seed, uint64(step)))
	w.calm = calm || w.over
}

// harvest waits until nothing runs any more, and checks the finished tasks.
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
