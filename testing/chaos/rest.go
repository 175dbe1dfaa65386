package chaos

import (
	"time"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// rounds is the number of rounds after which the schedule fails because the controllers' work does not end.
// callsPerRound is the largest number of calls by the controllers in a round.
const (
	rounds        = 400
	callsPerRound = 2000
)

// A lull is a step in which all pending work is done, in lullRounds rounds with a pause after each round. Waits of
// the controllers that are longer than all pauses together last longer than the lull. Sometimes a pause is long, to
// find retries that the controllers make only after a while.
const (
	lullRounds = 20
	lullPause  = 20 * time.Millisecond
	longPause  = 500 * time.Millisecond
)

// lastErrors is how many calls may fail after the last change by users. No further event then triggers a retry.
// lastErrorChance is the chance of a failure in percent.
const (
	lastErrors      = 3
	lastErrorChance = 30
)

// rest stops all faults except a few errors, and does all pending work.
func (w *World) rest() {
	w.over, w.calm = true, true
	w.Logf("faults stop")
	w.forgive()
	if w.subject.Settle != nil {
		w.subject.Settle()
	}
	w.errorsLeft = w.rng.IntN(lastErrors + 1)
	quiet, pause := time.Duration(0), time.Second
	for range rounds {
		version, writes := w.Server.Version(), w.writes
		w.settleOutside()
		w.settleCaches()
		w.settleControllers()
		switch {
		case w.Server.Version() != version || w.writes != writes:
			quiet, pause = 0, time.Second
		case quiet >= w.plan.Quiet:
			return
		default:
			w.Sleep(pause)
			quiet += pause
			pause = min(2*pause, 10*time.Second)
		}
	}
	w.Failf("rest", "still busy after %d rounds", rounds)
}

// settleOutside completes the work of nodes, the garbage collector and all other clients.
func (w *World) settleOutside() {
	for range 20 {
		busy := w.Nodes.Settle()
		if w.subject.Outside != nil {
			busy = w.subject.Outside() || busy
		}
		busy = w.Server.CollectGarbage() || busy
		if !busy {
			return
		}
	}
	w.Failf("rest", "nodes, garbage collection and others do not come to rest")
}

// lull does all pending work in the middle of a schedule, as far as possible in little simulated time, so that the
// next step finds budgets just used up.
func (w *World) lull() {
	calm, outside := w.calm, w.subject.Outside != nil && w.Chance(50)
	w.calm = true
	defer func() { w.calm = calm }()
	pause := lullPause
	if w.Chance(25) {
		pause = longPause
	}
	w.Logf("a lull with pauses of %v, others at work: %v", pause, outside)
	for range lullRounds {
		version, writes := w.Server.Version(), w.writes
		w.Nodes.Settle()
		if outside {
			w.subject.Outside()
		}
		w.Server.CollectGarbage()
		w.settleCaches()
		w.settleControllers()
		if w.Server.Version() == version && w.writes == writes {
			w.Logf("the lull is over")
			return
		}
		w.Sleep(pause)
	}
}

func (w *World) settleCaches() {
	for _, p := range w.processes {
		for _, one := range p.news() {
			one.deliver(one.behind)
		}
		for _, resource := range p.Cache.Resources() {
			p.Cache.Bookmark(resource)
		}
	}
	w.harvest()
}

// CatchUp delivers all events to the processes and carries out all their calls, without faults. Use CatchUp for rules
// that require up-to-date caches, and for checks during which much simulated time passes.
func (w *World) CatchUp() {
	calm := w.calm
	w.calm = true
	defer func() { w.calm = calm }()
	w.settleCaches()
	w.settleControllers()
}

// settleControllers carries out all calls and runs all reconciles that are due.
func (w *World) settleControllers() {
	for range callsPerRound {
		if !w.settleOne() {
			return
		}
		w.check()
	}
	w.Failf("rest", "controllers are still busy after %d calls", callsPerRound)
}

func (w *World) settleOne() bool {
	for _, p := range w.processes {
		if calls := p.calls(); len(calls) > 0 {
			w.let(p, calls[0], w.lastFate(calls[0].Call))
			return true
		}
		if starts := p.starts(); len(starts) > 0 {
			w.begin(p, starts[0])
			return true
		}
	}
	return false
}

// lastFate returns the outcome of a call after the last change by users: by chance an error, as long as errorsLeft is
// positive.
func (w *World) lastFate(call faultapi.Call) faultapi.Fate {
	if w.errorsLeft == 0 || !w.Chance(lastErrorChance) {
		return faultapi.Fate{}
	}
	w.errorsLeft--
	return w.passingError(call)
}

// asked is a request that a controller sent when nothing had changed.
type asked struct {
	controller string
	call       faultapi.Call
}

// checkIdle checks that, when nothing has changed, a reconcile sends no request, and that the controllers have not
// modified objects of the cache.
func (w *World) checkIdle() {
	w.idle = true
	w.Logf("one more look at everything")
	for _, p := range w.processes {
		p.Cache.Resync()
	}
	w.harvest()
	w.settleControllers()
	if n := len(w.asked); n > 0 {
		w.Failf("idle", "%d requests although nothing has changed; the first, by controller %s: %s", n, w.asked[0].controller, w.asked[0].call)
	}
	for _, p := range w.processes {
		if name := p.Cache.Altered(); name != "" {
			w.Failf("cache", "%s%s was modified in the cache", p.label(), name)
		}
	}
}
