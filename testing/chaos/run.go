package chaos

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// maxFailures is the number of failing schedules after which no more schedules are begun.
const maxFailures = 3

// shrinkPlays is how often a failing schedule may be repeated to find a shorter schedule.
const shrinkPlays = 600

// settings are values from environment variables.
type settings struct {
	seeds, steps int
	plays        int
	failures     int
	first        uint64
	script       Script
	hasScript    bool
}

func fromEnvironment(plan *Plan, lookup func(string) (string, bool)) (settings, error) {
	s := settings{seeds: plan.Seeds, steps: plan.Steps, plays: shrinkPlays, failures: maxFailures, first: 1}
	var errs []error
	number := func(name string, into *int) {
		if text, ok := lookup(name); ok && text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				errs = append(errs, fmt.Errorf("%s is %q, which is no number of 0 or more", name, text))
				return
			}
			*into = n
		}
	}
	number("CHAOS_SEEDS", &s.seeds)
	number("CHAOS_STEPS", &s.steps)
	number("CHAOS_PLAYS", &s.plays)
	number("CHAOS_FAILURES", &s.failures)
	if text, ok := lookup("CHAOS_FIRST_SEED"); ok && text != "" {
		first, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("CHAOS_FIRST_SEED is %q, which is no number of 0 or more", text))
		}
		s.first = first
	}
	if text, ok := lookup("CHAOS_SCRIPT"); ok && text != "" {
		script, err := ParseScript(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("CHAOS_SCRIPT: %w", err))
		}
		s.script, s.hasScript = script, true
	}
	return s, errors.Join(errs...)
}

// Run plays the schedules given by the plan and the environment variables, and fails the test for each schedule that
// breaks a rule. The schedules are parallel subtests and begin only after the test function has returned, so put
// later work into t.Cleanup.
func Run(t *testing.T, plan Plan) {
	t.Helper()
	plan = plan.complete()
	s, err := fromEnvironment(&plan, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if s.hasScript {
		o := play(t, &plan, s.first, s.script, true)
		t.Logf("seed %d:\n%s", s.first, strings.Join(o.trace, "\n"))
		if o.violation != nil {
			t.Errorf("seed %d, steps %s: %v", s.first, s.script, o.violation)
		}
		return
	}
	began := time.Now()
	var next, failed, steps, calls atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d schedules from seed %d, %d steps, %d API calls in %v",
			min(next.Load(), int64(s.seeds)), s.first, steps.Load(), calls.Load(), time.Since(began).Round(time.Millisecond))
	})
	full := Full(s.steps)
	for worker := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprintf("worker%d", worker), func(t *testing.T) {
			t.Parallel()
			for i := next.Add(1) - 1; i < int64(s.seeds) && failed.Load() < int64(max(s.failures, 1)); i = next.Add(1) - 1 {
				seed := s.first + uint64(i)
				o := play(t, &plan, seed, full, false)
				steps.Add(int64(o.steps))
				calls.Add(int64(o.calls))
				if o.violation != nil {
					failed.Add(1)
					t.Error(report(t, &plan, seed, full, o.violation, s.plays))
				}
			}
		})
	}
}

// report shortens a failing schedule and prints its steps.
func report(t *testing.T, plan *Plan, seed uint64, full Script, broken *Violation, plays int) string {
	if again := play(t, plan, seed, full, false).violation; again == nil || again.Rule != broken.Rule {
		return fmt.Sprintf("seed %d does not repeat itself: %v, and the second time %v.\n"+
			"Something in it does not depend on the seed alone: the order of a map, a random number, a select with several ready cases, "+
			"or, unless GOMAXPROCS=1, the order of goroutines that the same answer wakes.",
			seed, broken, again)
	}
	short := Shrink(full, plays, func(s Script) bool {
		v := play(t, plan, seed, s, false).violation
		return v != nil && v.Rule == broken.Rule
	})
	o := play(t, plan, seed, short, true)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v\n", seed, broken)
	fmt.Fprintf(&b, "%d of its %d steps are enough: %v\n", len(short), len(full), o.violation)
	fmt.Fprintf(&b, "play it again: CHAOS_FIRST_SEED=%d CHAOS_SCRIPT=%s go test -v -run '^%s$' %s\n",
		seed, short, strings.SplitN(t.Name(), "/", 2)[0], testPackage(plan.New))
	for _, line := range o.trace {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

// testPackage returns the import path of the package in which the function Plan.New is defined, for the command that
// plays a schedule again. The command works in the test's module, and in every module that requires the test's
// module.
func testPackage(maker func(*World) Subject) string {
	f := runtime.FuncForPC(reflect.ValueOf(maker).Pointer())
	if f == nil {
		return "."
	}
	return importPath(f.Name())
}

// importPath returns the package in a function's full name, such as "example.com/a/b_test.Plan.func1". The linker
// escapes dots in the last part of a path. For an external test package, the path is that of the package under test.
func importPath(function string) string {
	dir, name := path.Split(function)
	name, _, _ = strings.Cut(name, ".")
	if unescaped, err := url.PathUnescape(name); err == nil {
		name = unescaped
	}
	return dir + strings.TrimSuffix(name, "_test")
}

// Replay plays the schedules with the seeds 1 to seeds twice each, and fails the test if both runs of a schedule
// differ: then the controllers or the subject depend on more than the seed. Replay sets GOMAXPROCS to 1, because
// several processors may run goroutines that the same event wakes in any order.
func Replay(t *testing.T, plan Plan, seeds int) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	plan = plan.complete()
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		a := play(t, &plan, seed, Full(plan.Steps), true).trace
		b := play(t, &plan, seed, Full(plan.Steps), true).trace
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) || a[i] != b[i] {
				t.Errorf("seed %d: the stories differ from line %d on:\n%s\n----\n%s\n----\n%s", seed, i+1, strings.Join(a[max(0, i-5):min(i, len(a))], "\n"),
					strings.Join(a[min(i, len(a)):min(i+3, len(a))], "\n"), strings.Join(b[min(i, len(b)):min(i+3, len(b))], "\n"))
				break
			}
		}
	}
}

// outcome is the result of a schedule.
type outcome struct {
	violation    *Violation
	trace        []string
	steps, calls int
}

// play plays a schedule in its own synctest bubble, in which time advances only when the schedule chooses so.
func play(t *testing.T, plan *Plan, seed uint64, script Script, verbose bool) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := faultapi.New(plan.Scheme, time.Now, plan.Kinds...)
		if err != nil {
			t.Fatal(err)
		}
		w := &World{
			Server: server, Nodes: server.Nodes(), User: server.Client(nil, nil),
			plan: plan, seed: seed, began: time.Now(), processes: make([]*Process, plan.Replicas), refused: map[refusedWrite][]time.Time{},
		}
		if verbose {
			w.trace = &o.trace
		}
		defer func() {
			stopped := recover()
			for i := range w.processes {
				w.kill(i, errors.New("the schedule is over"))
			}
			o.violation, o.steps, o.calls = w.violation, w.steps, w.requests
			if _, ok := stopped.(stopSchedule); stopped != nil && !ok {
				panic(fmt.Sprintf("seed %d, steps %s: %v", seed, script, stopped))
			}
		}()
		w.play(script)
	})
	return o
}

func (w *World) play(script Script) {
	w.enter(0, false)
	w.subject = w.plan.New(w)
	w.processes = append(w.processes, make([]*Process, len(w.subject.Beside))...)
	w.subject.Begin()
	for i := range w.processes {
		w.boot(i)
	}
	for _, s := range script {
		w.enter(s.N, s.Calm)
		w.step()
	}
	w.enter(maxStep+1, true)
	w.rest()
	if w.subject.Converged != nil {
		w.subject.Converged()
	}
	w.check()
	w.checkIdle()
}
