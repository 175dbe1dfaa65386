package probing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/reason"
)

func at(second float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(second * float64(time.Second)))
}

// command returns a probe that runs a command.
func command(edit ...func(*corev1.Probe)) corev1.Probe {
	p := corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}}}
	for _, e := range edit {
		e(&p)
	}
	return p
}

func period(seconds int32) func(*corev1.Probe) {
	return func(p *corev1.Probe) { p.PeriodSeconds = seconds }
}

func thresholds(success, failure int32) func(*corev1.Probe) {
	return func(p *corev1.Probe) { p.SuccessThreshold, p.FailureThreshold = success, failure }
}

func delay(seconds int32) func(*corev1.Probe) {
	return func(p *corev1.Probe) { p.InitialDelaySeconds = seconds }
}

func timeout(seconds int32) func(*corev1.Probe) {
	return func(p *corev1.Probe) { p.TimeoutSeconds = seconds }
}

func otherCommand(p *corev1.Probe) { p.Exec.Command = []string{"check", "-v"} }

func target(edit ...func(*corev1.Probe)) *probing.Target {
	return &probing.Target{Pod: "u", Assigned: probing.Assigned{Name: "m#p", Container: "app", Probe: command(edit...)}, IP: "10.0.0.1"}
}

// running returns an instance that started at second 0.
func running(id string) probing.Instance {
	return probing.Instance{ID: id, Running: true, Started: at(0)}
}

func check(seconds int, command ...string) probing.Check {
	return probing.Check{Exec: command, Timeout: time.Duration(seconds) * time.Second}
}

// known returns a record of the instance "a": the state was reached at second 5, and the last result is from second
// 10.
func known(state probing.State) probing.Record {
	return probing.Record{
		Instance: "a", Container: "app", Started: at(0), Check: check(1, "check"), State: state, Message: "old", Streak: 1, Probed: at(10), Changed: at(5),
	}
}

// short contains the fields of a Step that the test compares.
type short struct {
	Run     bool
	After   time.Duration
	State   probing.State
	Message string
	Probed  time.Time
	Changed time.Time
	Timeout time.Duration
	Why     reason.Code
}

func TestNext(t *testing.T) {
	early := target(period(10))
	early.NotBefore = at(7)
	noAddress := target()
	noAddress.IP, noAddress.Probe = "", corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	for _, c := range []struct {
		name     string
		target   *probing.Target
		record   probing.Record
		instance probing.Instance
		now      float64
		want     short
	}{
		{"ND-30 the period is a second at least", target(), known("Succeeded"), running("a"), 10.4, short{
			After: 600 * time.Millisecond, State: "Succeeded", Message: "old", Probed: at(10), Changed: at(5), Timeout: time.Second,
		}},
		{"ND-30 the period has passed", target(period(10)), known("Succeeded"), running("a"), 20, short{
			Run: true, After: 10 * time.Second, State: "Succeeded", Message: "old", Probed: at(10), Changed: at(5), Timeout: time.Second,
		}},
		{"ND-30 the first run waits for its place", early, probing.Record{}, running("a"), 4, short{
			After: 3 * time.Second, Timeout: time.Second,
		}},
		{"ND-30 another handler: Unknown", target(otherCommand, period(10)), known("Succeeded"), running("a"), 11, short{
			After: 9 * time.Second, State: "Unknown", Probed: at(10), Changed: at(11), Timeout: time.Second,
		}},
		{"ND-30 other timings keep the state", target(timeout(4), thresholds(2, 2)), known("Succeeded"), running("a"), 11, short{
			Run: true, After: time.Second, State: "Succeeded", Message: "old", Probed: at(10), Changed: at(5), Timeout: 4 * time.Second,
		}},
		{"ND-31 no instance", target(period(3)), known("Succeeded"), probing.Instance{}, 60, short{
			After: 3 * time.Second, State: "Succeeded", Message: "old", Probed: at(10), Changed: at(5), Timeout: time.Second,
		}},
		{"ND-31 another instance: Unknown, run at once", target(period(10)), known("Succeeded"), running("b"), 11, short{
			Run: true, After: 10 * time.Second, State: "Unknown", Changed: at(11), Timeout: time.Second,
		}},
		{"ND-31 another instance after Unknown", target(), known("Unknown"), running("b"), 11, short{
			Run: true, After: time.Second, State: "Unknown", Changed: at(5), Timeout: time.Second,
		}},
		{"ND-31 not running: Failed at once, no check", target(thresholds(1, 3)), known("Succeeded"), probing.Instance{ID: "a"}, 60, short{
			After: time.Second, State: "Failed", Message: "Container(app) is Non-running", Probed: at(60), Changed: at(60), Timeout: time.Second,
		}},
		{"ND-31 the initial delay is a second at least", target(), probing.Record{}, running("a"), 0.25, short{
			After: 750 * time.Millisecond, Timeout: time.Second,
		}},
		{"ND-31 initial delay", target(delay(20)), probing.Record{}, running("a"), 15, short{
			After: 5 * time.Second, Timeout: time.Second,
		}},
		{"a new record knows nothing", target(), probing.Record{}, running("a"), 60, short{Run: true, After: time.Second, Timeout: time.Second}},
		{"the clock was set back", target(period(10)), known("Succeeded"), running("a"), 2, short{
			After: 10 * time.Second, State: "Succeeded", Message: "old", Probed: at(10), Changed: at(5), Timeout: time.Second,
		}},
		{"PP no address for tcp", noAddress, known("Failed"), running("a"), 60, short{
			State: "Failed", Message: "old", Probed: at(10), Changed: at(5), Timeout: time.Second, Why: probing.UnusableProbe,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := probing.Next(c.target, c.record, c.instance, at(c.now))
			got := short{s.Run, s.After, s.Record.State, s.Record.Message, s.Record.Probed, s.Record.Changed, s.Record.Check.Timeout, s.Why.Code}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	pass, fail := probing.Result{Verdict: probing.Pass, Message: "fine"}, probing.Result{Verdict: probing.Fail, Message: "broken"}
	undecided := probing.Result{Message: "the runtime does not answer"}
	for _, c := range []struct {
		name    string
		target  *probing.Target
		record  probing.Record
		results []probing.Result
		want    string // state, message, and second of the change
	}{
		{"ND-32 the thresholds are 1", target(), known("Unknown"), []probing.Result{pass}, "Succeeded fine 11"},
		{"ND-32 a failure", target(), known("Succeeded"), []probing.Result{fail}, "Failed broken 11"},
		{"PP-63 an explicit failure threshold of 3 is kept", target(thresholds(1, 3)), known("Succeeded"), []probing.Result{fail, fail}, "Succeeded old 5"},
		{"PP-63 three failures", target(thresholds(1, 3)), known("Succeeded"), []probing.Result{fail, fail, fail}, "Failed broken 13"},
		{"a pass ends the row of failures", target(thresholds(1, 2)), known("Succeeded"), []probing.Result{fail, pass, fail}, "Succeeded fine 5"},
		{"two passes", target(thresholds(2, 1)), known("Failed"), []probing.Result{fail, pass, pass}, "Succeeded fine 13"},
		{"ND-32 an error changes nothing", target(), known("Succeeded"), []probing.Result{undecided, undecided}, "Succeeded old 5"},
		{"an error does not end a row", target(thresholds(1, 2)), known("Succeeded"), []probing.Result{fail, undecided, fail}, "Failed broken 13"},
		{"the message changes alone", target(), known("Succeeded"), []probing.Result{pass}, "Succeeded fine 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			record := c.record
			for i, r := range c.results {
				record = probing.Observe(c.target, record, record, r, at(11+float64(i)))
			}
			got := strings.Join([]string{string(record.State), record.Message, record.Changed.Sub(at(0)).String()}, " ")
			if got += ""; got != c.want+"s" {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if want := at(10 + float64(len(c.results))); !record.Probed.Equal(want) {
				t.Errorf("probed at %v, want %v: the next run would come at once", record.Probed, want)
			}
		})
	}
}

// TestLateResult: the result of a check has no effect if the container instance or the handler has changed since the
// check began.
func TestLateResult(t *testing.T) {
	asked := known("Succeeded")
	for name, change := range map[string]func(*probing.Record){
		"ND-33 another instance": func(r *probing.Record) { r.Instance = "b" },
		"ND-33 another handler":  func(r *probing.Record) { r.Check = check(1, "check", "-v") },
	} {
		record := known("Unknown")
		change(&record)
		got := probing.Observe(target(), record, asked, probing.Result{Verdict: probing.Pass}, at(20))
		if diff := cmp.Diff(record, got, compareAddresses); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// TestMessage: a message has at most 1024 bytes, and is valid UTF-8.
func TestMessage(t *testing.T) {
	for _, c := range []struct{ name, given, want string }{
		{"ND-32 cut", strings.Repeat("a", 5000), strings.Repeat("a", 1024)},
		{"ND-32 not inside a character", "x" + strings.Repeat("é", 1000), "x" + strings.Repeat("é", 511)},
		{"ND-32 not text", "a\xff\xfeb", "a\uFFFDb"},
	} {
		got := probing.Observe(target(), known("Failed"), known("Failed"), probing.Result{Verdict: probing.Pass, Message: c.given}, at(11)).Message
		if got != c.want {
			t.Errorf("%s: got %q", c.name, got)
		}
	}
}

// TestSpread: the first runs of many probes are spread over the period, and the time of a probe is always the same.
func TestSpread(t *testing.T) {
	var tenths [10]int
	for i := range 1000 {
		slot := probing.Slot{Pod: "u", Probe: probing.JoinName("m", strings.Repeat("p", i+1))}
		wait := probing.Spread(slot, at(0), 10*time.Second).Sub(at(0))
		if again := probing.Spread(slot, at(0), 10*time.Second).Sub(at(0)); wait < 0 || wait >= 10*time.Second || again != wait {
			t.Fatalf("%v, then %v", wait, again)
		}
		tenths[wait/time.Second]++
	}
	for i, n := range tenths {
		if n < 50 || n > 200 {
			t.Errorf("tenth %d has %d of 1000", i, n)
		}
	}
}
