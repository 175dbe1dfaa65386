package cloneset

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/faultapi"
)

// Flags of the fault tests. A schedule is replayed with -fault.seed, and printed step by step.
type faultFlags struct {
	seeds, steps *int
	first        *uint64
	seed         *string
}

// newFaultFlags registers the flags; the testing package parses them before any test runs.
func newFaultFlags() faultFlags {
	return faultFlags{
		seeds: flag.Int("fault.seeds", 500, "how many schedules TestFaults runs"),
		steps: flag.Int("fault.steps", 150, "how many steps a schedule has before faults stop"),
		first: flag.Uint64("fault.first", 1, "the first schedule's seed"),
		seed:  flag.String("fault.seed", "", "run this schedule alone and print its steps"),
	}
}

var faults = newFaultFlags()

// TestFaults runs schedules of everything that can happen to a CloneSet, its Pods, the cache and the controller, each drawn
// from a seed, and holds what must never happen (DESIGN 7) after each step and what must have happened at the end.
func TestFaults(t *testing.T) {
	scheme := faultScheme(t)
	if *faults.seed != "" {
		seed, err := strconv.ParseUint(*faults.seed, 10, 64)
		if err != nil {
			t.Fatalf("-fault.seed: %v", err)
		}
		w := runSchedule(t, scheme, seed, *faults.steps, true)
		t.Logf("%s", strings.Join(w.trace, "\n"))
		if w.failure != nil {
			t.Fatalf("seed %d: %v", seed, w.failure)
		}
		return
	}
	seeds := *faults.seeds
	if testing.Short() {
		seeds = min(seeds, 200)
	}
	began := time.Now()
	var next, failed, steps, calls atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d schedules, %d steps, %d API calls in %v", min(next.Load(), int64(seeds)), steps.Load(), calls.Load(), time.Since(began).Round(time.Millisecond))
	})
	for worker := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprintf("worker%d", worker), func(t *testing.T) {
			t.Parallel()
			for i := next.Add(1) - 1; i < int64(seeds) && failed.Load() < 5; i = next.Add(1) - 1 {
				seed := *faults.first + uint64(i)
				w := runSchedule(t, scheme, seed, *faults.steps, false)
				steps.Add(int64(w.steps))
				calls.Add(int64(w.calls))
				if w.failure != nil {
					failed.Add(1)
					reportFailure(t, scheme, seed, w.failure)
				}
			}
		})
	}
}

// reportFailure runs a schedule again for its steps, and says how to do that by hand.
func reportFailure(t *testing.T, scheme *apiruntime.Scheme, seed uint64, failure error) {
	again := runSchedule(t, scheme, seed, *faults.steps, true)
	if again.failure == nil || again.failure.Error() != failure.Error() {
		t.Errorf("seed %d does not replay: %v, then %v", seed, failure, again.failure)
	}
	last := again.trace[max(len(again.trace)-60, 0):]
	t.Errorf("seed %d: %v\nreplay: go test ./controllers/cloneset -run 'TestFaults$' -v -fault.seed=%d -fault.steps=%d\nlast steps:\n%s",
		seed, failure, seed, *faults.steps, strings.Join(last, "\n"))
}

func faultScheme(t testing.TB) *apiruntime.Scheme {
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// stopSchedule unwinds a schedule whose failure has been noted.
type stopSchedule struct{}

// runSchedule runs one schedule in a bubble of its own, where time moves only when the schedule says so.
func runSchedule(t *testing.T, scheme *apiruntime.Scheme, seed uint64, steps int, verbose bool) *world {
	var w *world
	synctest.Test(t, func(t *testing.T) {
		server, err := faultapi.New(scheme, time.Now, &v1beta1.CloneSet{})
		if err != nil {
			t.Fatal(err)
		}
		w = &world{
			rng: rand.New(rand.NewPCG(seed, 1)), verbose: verbose, server: server, nodes: server.Nodes(),
			user: server.Client(nil, nil), began: time.Now(),
		}
		defer func() {
			w.kill(errors.New("the schedule is over"))
			if r := recover(); r != nil {
				if _, ok := r.(stopSchedule); !ok {
					panic(fmt.Sprintf("seed %d: %v", seed, r))
				}
			}
		}()
		w.begin()
		for range steps {
			w.step()
		}
		w.quiesce()
		w.checkConverged()
		w.checkIdle()
	})
	return w
}

// TestFaultsReplay proves that a schedule depends on its seed alone.
func TestFaultsReplay(t *testing.T) {
	scheme := faultScheme(t)
	for seed := range uint64(3) {
		a := runSchedule(t, scheme, seed+1, *faults.steps, true)
		b := runSchedule(t, scheme, seed+1, *faults.steps, true)
		for i := range min(len(a.trace), len(b.trace)) {
			if a.trace[i] != b.trace[i] {
				t.Fatalf("seed %d, line %d:\n%s\n%s", seed+1, i, a.trace[i], b.trace[i])
			}
		}
		if len(a.trace) != len(b.trace) {
			t.Errorf("seed %d: %d lines, then %d", seed+1, len(a.trace), len(b.trace))
		}
	}
}
