package main

import (
	"strings"
	"testing"

	"github.com/workloadkit/workloadkit/testing/bench"
)

func someResult() *bench.Result {
	return &bench.Result{
		Setup:   bench.Setup{Manager: "kruise-manager", Workload: "cloneset", Objects: 1, Pods: 1000, Nodes: 20, Change: "image", MaxUnavailable: "100%"},
		Machine: bench.Machine{CPU: "a processor", Cores: 2, Gibibytes: 23.5, System: "Linux", Go: "go1.26"},
		Pace:    bench.Pace{Before: 0.25, After: 0.312},
		Phases: []bench.Figure{
			{
				Phase: "in-place", Pods: 1000, Seconds: 22.5, Writes: 3, CPUSeconds: 2.8, PeakMebibytes: 62, Kept: 1000,
				GateClosed: &bench.Durations{Pods: 1000, Median: 0.05, P95: 0.15}, Unready: &bench.Durations{Pods: 1000, Median: 0.1, P95: 0.2, Max: 0.3},
			},
			{Phase: "slow-start", Pods: 1000, Seconds: 30, AllUpdated: 9.5, AllReady: 29.9},
			{Phase: "no-change", Pods: 1000, Seconds: 30},
			{Phase: "passes", Pods: 1000, PassMilliseconds: 1.5, ReconcileMilliseconds: 0.5},
		},
	}
}

func TestReportShowsWhatWasRun(t *testing.T) {
	text := report(map[string]*bench.Result{sizeRun(1000): someResult(), repeatRun(1): someResult()}, "40 ms\n")
	for _, want := range []string{
		"| 1,000 | in-place | 22.5 | 3.00 | 0 | 0 | 2.8 | 62 | 0.050 | 0.150 | 0.100 | 0.200 | 0.300 | 1000 | 0 | 0 |\n",
		"Machine: 2 cores (a processor), 24 GiB, Linux, go1.26.\n",
		"| 1,000 | 0.50 | 0.50 | 1.50 | 62 | 62 | 22.5 | 22.5 | 2.8 | 2.8 |\n",
		"](scaling.svg)",
		"to sort 2,000,000 numbers on each core",
		"| cloneset-1000 | 0.25 | 0.31 |\n",
		"| cloneset-1000-again-2 | 22.5 | 2.8 | 62 | 0.050 | 0.150 |\n",
		"The manager used 6% of the CPU time",
		"```\n40 ms\n```\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not in the report: %q\nin:\n%s", want, text)
		}
	}
	for _, absent := range []string{"timeline.svg", "10,000 Pods in one", "%!"} {
		if strings.Contains(text, absent) {
			t.Errorf("%q in a report without such a run:\n%s", absent, text)
		}
	}
}
