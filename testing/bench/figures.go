package bench

import (
	"cmp"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

// Result contains the measurements of a run. A Result can be stored as JSON.
type Result struct {
	Setup   Setup    `json:"setup"`
	Machine Machine  `json:"machine"`
	Pace    Pace     `json:"paceSeconds"`
	Phases  []Figure `json:"phases"`

	rollouts []drawn
}

// Phase returns the figures of a phase. The figures of a phase that was not run are zero.
func (r *Result) Phase(name string) Figure {
	if i := slices.IndexFunc(r.Phases, func(f Figure) bool { return f.Phase == name }); i >= 0 {
		return r.Phases[i]
	}
	return Figure{}
}

// Pace is the speed of the machine: the seconds that the yardstick took before the first phase and after the last
// phase.
type Pace struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Setup describes the configuration of the run.
type Setup struct {
	Manager        string `json:"manager"`
	Workload       string `json:"workload"`
	Objects        int    `json:"objects"`
	Pods           int    `json:"pods"`
	Nodes          int    `json:"nodes"`
	Change         string `json:"change"`
	MaxUnavailable string `json:"maxUnavailable"`
	StartDelay     string `json:"startDelay,omitempty"`
	SlowStart      string `json:"slowStart,omitempty"`
}

// Figure contains the measurements of a phase.
type Figure struct {
	Phase string `json:"phase"`
	// Pods is the number by which the numbers of requests are divided. For the scale-down, Pods is the number of deleted
	// Pods. For all other phases, Pods is the number of Pods of the workload.
	Pods    int     `json:"pods"`
	Seconds float64 `json:"seconds"`
	// CPUSeconds and PeakMebibytes are the CPU time and the peak memory of the manager.
	CPUSeconds    float64 `json:"cpuSeconds"`
	PeakMebibytes float64 `json:"peakMebibytes"`
	// Writes, Conflicts and Reads are the numbers of the manager's requests for Pods and their subresources, per Pod. A
	// request answered with the status code 409 counts as a conflict and not as a write. A dry run counts as a read.
	Writes    float64 `json:"writesPerPod"`
	Conflicts float64 `json:"conflictsPerPod"`
	Reads     float64 `json:"readsPerPod"`
	// Requests contains all requests of the manager except watches and lease requests. Their number does not grow with
	// the number of Pods.
	Requests []RequestCount `json:"requests,omitempty"`
	// GateClosed says how long a readiness gate was closed, for Pods that were not recreated. Unready says how long the
	// same Pods were not ready. Starting says how long new Pods took from their creation until they were ready.
	GateClosed *Durations `json:"gateClosedSeconds,omitempty"`
	Unready    *Durations `json:"unreadySeconds,omitempty"`
	Starting   *Durations `json:"startingSeconds,omitempty"`
	Kept       int        `json:"podsKept"`
	Created    int        `json:"podsCreated"`
	Deleted    int        `json:"podsDeleted"`
	// Touched is the number of Pods that any client has written.
	Touched int `json:"podsTouched"`
	// AllUpdated is when the last Pod had the new template. AllReady is when the last Pod was ready with the new template.
	AllUpdated float64 `json:"allUpdatedSeconds,omitempty"`
	AllReady   float64 `json:"allReadySeconds,omitempty"`
	// PassMilliseconds is the CPU time of a pass. A pass is a reconciliation of a workload object that needs no change,
	// and includes the receipt of the event.
	PassMilliseconds float64 `json:"passMilliseconds,omitempty"`
	// ReconcileMilliseconds is the duration of the reconciliation in a pass, from the manager's own metrics. It is zero
	// unless [Options.Metrics] is set.
	ReconcileMilliseconds float64 `json:"reconcileMilliseconds,omitempty"`
}

// RequestCount is the number of requests of one kind that the manager has sent.
type RequestCount struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	// Code is the status code of failed requests, such as 409 for a conflict. It is zero for other requests.
	Code int `json:"code,omitempty"`
	// DryRun is true for dry runs. A dry run costs as much as a write, but changes nothing.
	DryRun bool    `json:"dryRun,omitempty"`
	Count  int     `json:"count"`
	PerPod float64 `json:"perPod"`
}

// IsWrite reports whether the request could have changed an object.
func (t RequestCount) IsWrite() bool { return t.request().IsWrite() }

func (t RequestCount) request() audit.Request {
	return audit.Request{Verb: t.Verb, Resource: t.Resource, Code: t.Code, DryRun: t.DryRun}
}

// kind returns a copy without the number of requests, as a key for counting.
func (t RequestCount) kind() RequestCount {
	t.Count, t.PerPod = 0, 0
	return t
}

// counted reports whether a request is counted in the figures.
func counted(r audit.Request) bool {
	return r.Resource != "" && r.Resource != "leases" && r.Verb != "watch"
}

// tallyRequests counts requests by verb and resource. Failed requests are counted separately, and writes come first.
func tallyRequests(requests []audit.Request, pods int) []RequestCount {
	counts := map[RequestCount]int{}
	for _, r := range requests {
		if !counted(r) {
			continue
		}
		key := RequestCount{Verb: r.Verb, Resource: r.Resource, DryRun: r.DryRun}
		if r.Code >= 300 {
			key.Code = r.Code
		}
		counts[key]++
	}
	var out []RequestCount
	for key, n := range counts {
		key.Count, key.PerPod = n, float64(n)/float64(max(pods, 1))
		out = append(out, key)
	}
	slices.SortFunc(out, compareKinds)
	return out
}

// compareKinds orders kinds of requests: writes come first, then the order is by resource, verb and code.
func compareKinds(a, b RequestCount) int {
	if a.IsWrite() != b.IsWrite() {
		return map[bool]int{true: -1, false: 1}[a.IsWrite()]
	}
	return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.String(), b.String()))
}

// String renders the kind of request: "patch pods/status (409)".
func (t RequestCount) String() string {
	return t.request().String()
}

// setRequests fills in the manager's requests.
func (f *Figure) setRequests(requests []audit.Request) {
	f.Requests = tallyRequests(requests, f.Pods)
	f.Writes, f.Conflicts, f.Reads = 0, 0, 0
	for _, t := range f.Requests {
		if t.Resource != "pods" && !strings.HasPrefix(t.Resource, "pods/") {
			continue
		}
		switch {
		case !t.IsWrite():
			f.Reads += t.PerPod
		case t.Code == 409:
			f.Conflicts += t.PerPod
		default:
			f.Writes += t.PerPod
		}
	}
}

// setLives fills in the figures that follow from the observed states of the Pods.
func (f *Figure) setLives(lives []life) {
	f.GateClosed, f.Unready, f.Starting = summarise(gateClosed(lives)), summarise(outOfService(lives)), summarise(starting(lives))
	f.Kept, f.Created, f.Deleted, f.Touched = tally(lives)
}

// AllWrites returns the number of writes of all resources, including refused writes.
func (f Figure) AllWrites() int {
	n := 0
	for _, t := range f.Requests {
		if t.IsWrite() {
			n += t.Count
		}
	}
	return n
}
