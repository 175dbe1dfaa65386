package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

func repeat(n int, r audit.Request) []audit.Request {
	var out []audit.Request
	for range n {
		out = append(out, r)
	}
	return out
}

func requestsOfARollout() []audit.Request {
	var out []audit.Request
	for _, some := range [][]audit.Request{
		repeat(20, audit.Request{Verb: "patch", Resource: "pods/status", Code: 200}),
		repeat(10, audit.Request{Verb: "patch", Resource: "pods", Code: 200}),
		repeat(1, audit.Request{Verb: "patch", Resource: "pods", Code: 409}),
		repeat(4, audit.Request{Verb: "patch", Resource: "pods/resize", Code: 200, DryRun: true}),
		repeat(5, audit.Request{Verb: "get", Resource: "pods", Code: 404}),
		repeat(2, audit.Request{Verb: "patch", Resource: "clonesets/status", Code: 200}),
		repeat(1, audit.Request{Verb: "list", Resource: "podtemplates", Code: 200}),
		// Lease requests and watches are not counted, because their number does not grow with the number of Pods.
		repeat(3, audit.Request{Verb: "update", Resource: "leases", Code: 200}),
		repeat(3, audit.Request{Verb: "watch", Resource: "pods", Code: 200}),
		repeat(3, audit.Request{Verb: "get"}),
	} {
		out = append(out, some...)
	}
	return out
}

func TestRequestsArePerPod(t *testing.T) {
	f := Figure{Phase: "in-place", Pods: 10}
	f.setRequests(requestsOfARollout())
	want := Figure{
		Phase: "in-place", Pods: 10, Writes: 3, Conflicts: 0.1, Reads: 0.9,
		Requests: []RequestCount{
			{Verb: "patch", Resource: "clonesets/status", Count: 2, PerPod: 0.2},
			{Verb: "patch", Resource: "pods", Count: 10, PerPod: 1},
			{Verb: "patch", Resource: "pods", Code: 409, Count: 1, PerPod: 0.1},
			{Verb: "patch", Resource: "pods/status", Count: 20, PerPod: 2},
			{Verb: "get", Resource: "pods", Code: 404, Count: 5, PerPod: 0.5},
			{Verb: "patch", Resource: "pods/resize", DryRun: true, Count: 4, PerPod: 0.4},
			{Verb: "list", Resource: "podtemplates", Count: 1, PerPod: 0.1},
		},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("figure (-want +got):\n%s", diff)
	}
	if got := f.AllWrites(); got != 33 {
		t.Errorf("%d writes in all, want 33", got)
	}
}

func TestRequestTable(t *testing.T) {
	first, second := Figure{Phase: "in-place", Pods: 10}, Figure{Phase: "scale-down", Pods: 10}
	first.setRequests(requestsOfARollout())
	second.setRequests(repeat(10, audit.Request{Verb: "delete", Resource: "pods", Code: 200}))
	got := (&Result{Phases: []Figure{first, second}}).Requests()
	want := [][]string{
		{"requests per Pod", "in-place", "scale-down"},
		{"patch clonesets/status", "0.2", "-"},
		{"delete pods", "-", "1"},
		{"patch pods", "1", "-"},
		{"patch pods (409)", "0.1", "-"},
		{"patch pods/status", "2", "-"},
		{"get pods (404)", "0.5", "-"},
		{"patch pods/resize (dry run)", "0.4", "-"},
		{"list podtemplates", "0.1", "-"},
	}
	if diff := cmp.Diff(want, append([][]string{got.Header}, got.Rows...)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func someResult() *Result {
	return &Result{
		Setup:   Setup{Manager: "kruise-manager", Workload: "cloneset", Objects: 1, Pods: 1000, Nodes: 20, Change: "image", MaxUnavailable: "100%"},
		Machine: Machine{CPU: "a processor", Cores: 2, Gibibytes: 23.5, System: "Linux", Go: "go1.26"},
		Pace:    Pace{Before: 0.25, After: 0.312},
		Phases: []Figure{
			{
				Phase: "in-place", Pods: 1000, Seconds: 22.5, Writes: 3, CPUSeconds: 2.8, PeakMebibytes: 62, Kept: 1000,
				GateClosed: &Durations{Pods: 1000, Median: 0.05, P95: 0.15}, Unready: &Durations{Pods: 1000, Median: 0.1, P95: 0.2, Max: 0.3},
			},
			{Phase: "slow-start", Pods: 1000, Seconds: 30, AllUpdated: 9.5, AllReady: 29.9},
			{Phase: "no-change", Pods: 1000, Seconds: 30},
			{Phase: "passes", Pods: 1000, PassMilliseconds: 1.5, ReconcileMilliseconds: 0.5},
		},
	}
}

func TestPrintedTableIsAligned(t *testing.T) {
	var out bytes.Buffer
	someResult().Print(&out)
	text := out.String()
	for _, want := range []string{
		"1000 Pods of 1 cloneset, 20 Nodes, change image, maxUnavailable 100%, manager kruise-manager\non 2 cores (a processor), 24 GiB, Linux, go1.26\n" +
			"which took 0.25 s before and 0.31 s after to sort 2,000,000 numbers on each core at once\n",
		"    in-place     22.5        3.00              0          0    2.8        62                  0.050  0.150              0.100  0.200  0.300  1000        0        0\n",
		"slow-start: all containers began to restart within 9.5 s, all Pods were ready after 29.9 s\n",
		"no-change: 0 Pods touched and 0 writes of the manager in 30 s\n",
		"passes: 1.50 ms of CPU for a pass that finds nothing to do, 0 Pods touched; the reconcile took 0.50 ms by the clock\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not printed: %q\nin:\n%s", want, text)
		}
	}
}
