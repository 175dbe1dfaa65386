package completion_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

func at(second int) time.Time { return time.Unix(1_000_000+int64(second), 0) }

func seconds(n int64) *time.Duration { return completion.Seconds(&n) }

// step is the part of a Step that the tests compare.
type step struct {
	State  completion.State
	Start  int
	Remove bool
	After  time.Duration
	Why    reason.Code
}

func next(r completion.Rules, p completion.Progress, now time.Time) step {
	s := completion.Next(r, p, now)
	out := step{State: s.State, Start: s.Start, Remove: s.Remove, After: s.After}
	if len(s.Why) > 0 {
		out.Why = s.Why[0].Code
	}
	return out
}

func TestNext(t *testing.T) {
	type (
		rules    = completion.Rules
		progress = completion.Progress
	)
	for _, c := range []struct {
		name string
		r    rules
		p    progress
		now  int
		want step
	}{
		{"BJ-7 all at once", rules{Parallelism: math.MaxInt32}, progress{Wanted: 10, Missing: 10}, 0, step{State: completion.Running, Start: 10}},
		{"BJ-7 as many as may run", rules{Parallelism: 2}, progress{Wanted: 10, Missing: 10}, 0, step{State: completion.Running, Start: 2, Why: completion.ParallelismReached}},
		{"BJ-7 none while they run", rules{Parallelism: 2}, progress{Wanted: 10, Active: 2, Missing: 8}, 0, step{State: completion.Running, Why: completion.ParallelismReached}},
		{"BJ-7 as many as are left", rules{Parallelism: 5}, progress{Wanted: 10, Done: 7, Active: 1, Missing: 2}, 0, step{State: completion.Running, Start: 2}},
		{"BJ-8 none is ended for a lower limit", rules{Parallelism: 2}, progress{Wanted: 9, Active: 5, Missing: 4}, 0, step{State: completion.Running, Why: completion.OverParallelism}},
		{"parallelism 0 runs nothing", rules{}, progress{Wanted: 3, Missing: 3}, 0, step{State: completion.Running, Why: completion.ParallelismReached}},
		{"EJ-7 room that is there is used", rules{Parallelism: 5}, progress{Wanted: 5, Active: 3, Missing: 2}, 0, step{State: completion.Running, Start: 2}},
		{"BJ-10 a failure ends the job", rules{Parallelism: 9, OnFailure: completion.End}, progress{Wanted: 5, Active: 4, Failed: 1, Known: 1, Done: 1}, 0, step{State: completion.Failed, Why: completion.FailureNotTolerated}},
		{"BJ-10 also the last", rules{OnFailure: completion.End}, progress{Wanted: 1, Failed: 1, Done: 1}, 0, step{State: completion.Failed, Why: completion.FailureNotTolerated}},
		{"BJ-11 a failure is done", rules{Parallelism: 9}, progress{Wanted: 5, Done: 1, Failed: 1, Missing: 4}, 0, step{State: completion.Running, Start: 4}},
		{"BJ-11 and the job completes", rules{Parallelism: 9}, progress{Wanted: 5, Done: 5, Failed: 5}, 0, step{State: completion.Complete}},
		{"BJ-12 a new failure holds", rules{Parallelism: 9, OnFailure: completion.Hold}, progress{Wanted: 5, Failed: 1, Missing: 4}, 0, step{State: completion.Held, Why: completion.HeldByFailures}},
		{"BJ-12 and goes on to", rules{Parallelism: 9, OnFailure: completion.Hold}, progress{Wanted: 5, Failed: 1, Known: 1, Held: true, Missing: 4}, 0, step{State: completion.Held, Why: completion.HeldByFailures}},
		{"BJ-12 a known one does not, once the spec was changed", rules{Parallelism: 9, OnFailure: completion.Hold}, progress{Wanted: 5, Failed: 1, Known: 1, Missing: 4}, 0, step{State: completion.Running, Start: 4}},
		{"BJ-12 nor one that is gone", rules{Parallelism: 9, OnFailure: completion.Hold}, progress{Wanted: 5, Known: 1, Held: true, Missing: 5}, 0, step{State: completion.Running, Start: 5}},
		{"BJ-12 a second one holds again", rules{Parallelism: 9, OnFailure: completion.Hold}, progress{Wanted: 5, Failed: 2, Known: 1, Missing: 3}, 0, step{State: completion.Held, Why: completion.HeldByFailures}},
		{"BJ-12 held, no deadline", rules{OnFailure: completion.Hold, Deadline: seconds(1)}, progress{Started: at(0), Failed: 1, Wanted: 1, Done: 1}, 9, step{State: completion.Held, Why: completion.HeldByFailures}},
		{"BJ-13 paused: no start, no end, no deadline", rules{Parallelism: 9, Paused: true, OnFailure: completion.End, Deadline: seconds(1)}, progress{Started: at(0), Wanted: 5, Failed: 1, Done: 5}, 9, step{State: completion.Paused, Why: completion.JobPaused}},
		{"BJ-14 before the deadline", rules{Parallelism: 9, Deadline: seconds(10)}, progress{Started: at(0), Wanted: 2, Missing: 2}, 9, step{State: completion.Running, Start: 2, After: time.Second}},
		{"BJ-14 at the deadline", rules{Parallelism: 9, Deadline: seconds(10)}, progress{Started: at(0), Wanted: 2, Missing: 2}, 10, step{State: completion.Failed, Why: completion.DeadlineExceeded}},
		{"BJ-14 not started yet", rules{Parallelism: 9, Deadline: seconds(10)}, progress{Wanted: 2, Missing: 2}, 10, step{State: completion.Running, Start: 2, After: 10 * time.Second}},
		{"BJ-14 what is done in time is complete, however late that is seen", rules{Deadline: seconds(10)}, progress{Started: at(0), Wanted: 2, Done: 2}, 90, step{State: completion.Complete}},
		{"BJ-15 nothing to do is not complete", rules{Parallelism: 9}, progress{}, 0, step{State: completion.Running}},
		{"BJ-15 complete", rules{Parallelism: 9}, progress{Wanted: 3, Done: 3}, 0, step{State: completion.Complete}},
		{"BJ-16 endless", rules{Parallelism: 9, Endless: true}, progress{Wanted: 3, Done: 3}, 0, step{State: completion.Running}},
		{"BJ-16 endless, and fails", rules{Parallelism: 9, Endless: true, OnFailure: completion.End}, progress{Wanted: 3, Done: 3, Failed: 1}, 0, step{State: completion.Failed, Why: completion.FailureNotTolerated}},
		{"numbers below zero", rules{Parallelism: 2}, progress{Wanted: 3, Done: 2, Active: -5, Missing: -1}, 0, step{State: completion.Running}},
		{"more is missing than may run, and fewer than none run", rules{Parallelism: 2}, progress{Wanted: 9, Active: -5, Missing: 9}, 0, step{State: completion.Running, Start: 2, Why: "ParallelismReached"}},
		{"none may run", rules{}, progress{Wanted: 9, Missing: 9}, 0, step{State: completion.Running, Why: "ParallelismReached"}},
		{"BJ-19 over for good", rules{}, progress{Ended: at(0), Wanted: 3, Missing: 3}, 9, step{State: completion.Over}},
		{"BJ-19 over, to be kept for a while", rules{TTL: seconds(10), Paused: true}, progress{Ended: at(0)}, 4, step{State: completion.Over, After: 6 * time.Second}},
		{"BJ-19 over for long enough", rules{TTL: seconds(10)}, progress{Ended: at(0)}, 10, step{State: completion.Over, Remove: true}},
		{"BJ-19 at once", rules{TTL: seconds(0)}, progress{Ended: at(0)}, 0, step{State: completion.Over, Remove: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want.State == completion.Complete || c.want.State == completion.Failed {
				c.want.After = time.Second // a write to the status does not enqueue the job
			}
			if diff := cmp.Diff(c.want, next(c.r, c.p, at(c.now))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParallelism(t *testing.T) {
	for _, c := range []struct {
		value  intstr.IntOrString
		wanted int
		want   int
	}{{intstr.FromInt32(7), 3, 7}, {intstr.FromString("20%"), 10, 2}, {intstr.FromString("1%"), 10, 1}, {intstr.FromString("0%"), 10, 0}, {intstr.FromString("200%"), 10, 20}, {intstr.FromString("20%"), 0, 0}} {
		if got, err := completion.Parallelism("spec.parallelism", &c.value, c.wanted); got != c.want || err != nil {
			t.Errorf("%s of %d: %d, %v; want %d", c.value.String(), c.wanted, got, err, c.want)
		}
	}
	if got, err := completion.Parallelism("spec.parallelism", nil, 3); got != math.MaxInt32 || err != nil {
		t.Errorf("nil: %d, %v", got, err)
	}
	junk := intstr.FromString("many")
	_, err := completion.Parallelism("spec.parallelism", &junk, 3)
	want := reason.List{{Code: partition.InvalidValue, Path: "spec.parallelism", New: `"many"`}}
	if diff := cmp.Diff(want, reason.From(err), cmpopts.IgnoreFields(reason.Reason{}, "Detail", "Remedy")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSeconds(t *testing.T) {
	if completion.Seconds[int32](nil) != nil || *seconds(3) != 3*time.Second {
		t.Error("not the number of seconds")
	}
	if d := *seconds(math.MaxInt64); d < 200*365*24*time.Hour {
		t.Errorf("a very long time is %s", d)
	}
	if d := *seconds(math.MinInt64); d >= 0 {
		t.Errorf("a negative time is %s", d)
	}
}

// FuzzNext: for any counts, Next starts no more items than are missing or may run, a job that has ended stays Over,
// and a requeue time is never negative.
func FuzzNext(f *testing.F) {
	f.Add(2, 10, 3, 1, 6, 1, 0, byte(0), int64(5), int64(7))
	f.Add(0, 0, 0, 0, 0, 0, 0, byte(255), int64(-1), int64(0))
	f.Add(1, 1, 1, 0, 0, 1, 1, byte(0b101), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, parallelism, wanted, done, active, missing, failed, known int, bits byte, deadline, now int64) {
		r := completion.Rules{Parallelism: parallelism & 0xffff, Endless: bits&1 > 0, Paused: bits&2 > 0, OnFailure: completion.OnFailure(bits >> 2 & 3)}
		p := completion.Progress{Wanted: wanted & 0xffff, Done: done & 0xffff, Active: active & 0xffff, Missing: missing & 0xffff, Failed: failed & 0xffff, Known: known & 0xffff, Held: bits&16 > 0}
		if bits&32 > 0 {
			r.Deadline, r.TTL = seconds(deadline), seconds(deadline)
		}
		p.Started = at(0)
		if bits&64 > 0 {
			p.Ended = at(0)
		}
		s := completion.Next(r, p, at(int(now&0xffffff)))
		if s.Start < 0 || s.Start > p.Missing || s.Start > 0 && p.Active+s.Start > r.Parallelism || s.Start > 0 && s.State != completion.Running {
			t.Errorf("starts %d: %+v %+v", s.Start, r, p)
		}
		if s.After < 0 || s.Remove && s.State != completion.Over || (s.State == completion.Over) == p.Ended.IsZero() {
			t.Errorf("%+v: %+v %+v", s, r, p)
		}
		if s.State == completion.Complete && (r.Endless || p.Done < p.Wanted) {
			t.Errorf("complete: %+v %+v", r, p)
		}
		if (s.State == completion.Failed || s.State == completion.Held || s.State == completion.Paused || s.State == completion.Running && s.Start < p.Missing) != (len(s.Why) > 0) &&
			(s.State != completion.Running || p.Active <= r.Parallelism) {
			t.Errorf("%s says %v", s.State, s.Why)
		}
	})
}

// Example is a job on every Node that runs on at most a fifth of the Nodes at the same time.
func Example() {
	fifth := intstr.FromString("20%")
	const nodes, ended, running = 10, 3, 1
	parallelism, err := completion.Parallelism("spec.parallelism", &fifth, nodes)
	if err != nil {
		fmt.Println(err)
		return
	}
	hour := int32(3600)
	rules := completion.Rules{Parallelism: parallelism, OnFailure: completion.End, Deadline: completion.Seconds(&hour), Paths: completion.Paths{Parallelism: "spec.parallelism"}}
	begun := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	step := completion.Next(rules, completion.Progress{
		Started: begun, Wanted: nodes, Done: ended, Active: running, Missing: nodes - ended - running,
	}, begun.Add(10*time.Minute))
	fmt.Println(step.State, step.Start, step.After)
	fmt.Println(step.Why)
	// Output:
	// Running 1 50m0s
	// ParallelismReached: spec.parallelism: 2: 5 wait for others to end; wait, or raise it
}
