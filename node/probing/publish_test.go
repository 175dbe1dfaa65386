package probing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/node/probing"
)

// entry returns the entry of a Pod in the namespace ns, with probes of the container app. UID and name of the Pod are
// equal.
func entry(pod string, probes ...string) probing.Entry {
	e := probing.Entry{Namespace: "ns", Name: pod, UID: types.UID(pod), IP: "10.0.0.1"}
	for _, p := range probes {
		e.Probes = append(e.Probes, probing.Assigned{Name: p, Container: "app", Probe: command()})
	}
	return e
}

func report(pod string, states ...probing.ProbeState) probing.Report {
	return probing.Report{Namespace: "ns", Name: pod, UID: types.UID(pod), States: states}
}

// said returns a reported state that was reached at second 5. probed is the second of the last result.
func said(name string, state probing.State, message string, probed float64) probing.ProbeState {
	return probing.ProbeState{Name: name, State: state, Message: message, Probed: at(probed), Changed: at(5)}
}

func record(state probing.State, message string, probed, changed float64) probing.Record {
	return probing.Record{Instance: "a", Container: "app", Started: at(0), Check: check(1, "check"), State: state, Message: message, Probed: at(probed), Changed: at(changed)}
}

func TestPublish(t *testing.T) {
	type records = map[probing.Slot]probing.Record
	p, q := probing.Slot{Pod: "u", Probe: "m#p"}, probing.Slot{Pod: "u", Probe: "m#q"}
	before := []probing.Report{report("u", said("m#p", "Succeeded", "fine", 10))}
	asked := []probing.Entry{entry("u", "m#p")}
	late := record("", "", 0, 0)
	late.Started = at(50)
	other, elsewhere := record("Failed", "broken", 99, 98), record("Failed", "broken", 99, 98)
	other.Check, elsewhere.Container = check(1, "former"), "log"
	unknown := probing.Publication{Reports: []probing.Report{report("u", probing.ProbeState{Name: "m#p", State: "Unknown", Probed: at(99), Changed: at(100)})}, Write: true}
	for _, c := range []struct {
		name    string
		before  []probing.Report
		entries []probing.Entry
		records records
		rhythm  probing.Rhythm
		written float64
		want    probing.Publication
	}{
		{"ND-35 ND-70 nothing has changed", before, asked, records{p: record("Succeeded", "fine", 99, 5)}, probing.Rhythm{}, 10, probing.Publication{Reports: before}},
		{"ND-34 the state", before, asked, records{p: record("Failed", "broken", 99, 98)}, probing.Rhythm{}, 10, probing.Publication{
			Reports: []probing.Report{report("u", probing.ProbeState{Name: "m#p", State: "Failed", Message: "broken", Probed: at(99), Changed: at(98)})}, Write: true,
		}},
		{"the state, less than a second after a write", before, asked, records{p: record("Failed", "broken", 99, 98)}, probing.Rhythm{}, 99.5, probing.Publication{
			Reports: []probing.Report{report("u", probing.ProbeState{Name: "m#p", State: "Failed", Message: "broken", Probed: at(99), Changed: at(98)})}, After: 500 * time.Millisecond,
		}},
		{"ND-35 the message, the time of the change stays", before, asked, records{p: record("Succeeded", "better", 99, 60)}, probing.Rhythm{}, 10, probing.Publication{
			Reports: []probing.Report{report("u", said("m#p", "Succeeded", "better", 99))}, Write: true,
		}},
		{"the message, soon after a write", before, asked, records{p: record("Succeeded", "better", 99, 60)}, probing.Rhythm{}, 97, probing.Publication{
			Reports: []probing.Report{report("u", said("m#p", "Succeeded", "better", 99))}, After: 7 * time.Second,
		}},
		{"ND-34 an old result is refreshed if asked for", before, asked, records{p: record("Succeeded", "fine", 99, 5)}, probing.Rhythm{Refresh: 90 * time.Second}, 10, probing.Publication{
			Reports: []probing.Report{report("u", said("m#p", "Succeeded", "fine", 99))}, Write: true,
		}},
		{"ND-34 no refresh yet", before, asked, records{p: record("Succeeded", "fine", 99, 5)}, probing.Rhythm{Refresh: 10 * time.Minute}, 10, probing.Publication{
			Reports: before, After: 510 * time.Second,
		}},
		{"ND-35 the agent has restarted: the state stays", before, asked, records{p: record("", "", 0, 0)}, probing.Rhythm{}, 0, probing.Publication{Reports: before}},
		{"no record yet: the state stays", before, asked, nil, probing.Rhythm{}, 10, probing.Publication{Reports: before}},
		{"agent and container have restarted: Unknown", before, asked, records{p: late}, probing.Rhythm{}, 10, probing.Publication{
			Reports: []probing.Report{report("u", probing.ProbeState{Name: "m#p", State: "Unknown", Probed: at(10), Changed: at(100)})}, Write: true,
		}},
		{"ND-31 the first state of a probe is Unknown", nil, asked, records{p: record("", "", 0, 0)}, probing.Rhythm{}, 10, probing.Publication{
			Reports: []probing.Report{report("u", probing.ProbeState{Name: "m#p", State: "Unknown", Changed: at(100)})}, Write: true,
		}},
		{"no instance yet: no state", nil, asked, nil, probing.Rhythm{}, 10, probing.Publication{}},
		{"ND-33 two probes of a container", before, []probing.Entry{entry("u", "m#p", "m#q")}, records{p: record("Succeeded", "fine", 99, 5), q: record("Failed", "no", 99, 98)}, probing.Rhythm{}, 10, probing.Publication{
			Reports: []probing.Report{report("u", said("m#p", "Succeeded", "fine", 10), probing.ProbeState{Name: "m#q", State: "Failed", Message: "no", Probed: at(99), Changed: at(98)})}, Write: true,
		}},
		{"ND-30 a result of the former probe", before, asked, records{p: other}, probing.Rhythm{}, 10, unknown},
		{"ND-30 a result of the former container", before, asked, records{p: elsewhere}, probing.Rhythm{}, 10, unknown},
		{"PP-7 PP-12 the probe has gone", before, []probing.Entry{entry("u")}, records{p: record("Succeeded", "fine", 99, 5)}, probing.Rhythm{}, 10, probing.Publication{Write: true}},
		{"PP-7 another UID", before, []probing.Entry{entry("v", "m#p")}, nil, probing.Rhythm{}, 10, probing.Publication{Write: true}},
		{"a state reported twice", append(before, before...), asked, nil, probing.Rhythm{}, 10, probing.Publication{Reports: before, Write: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			written := at(c.written)
			if c.written == 0 {
				written = time.Time{}
			}
			got := probing.Publish(c.before, c.entries, c.records, c.rhythm, written, at(100))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
		})
	}
}

// fleet simulates the agents of many Nodes, whose probes all have the same period.
type fleet struct {
	targets map[string][]probing.Target
	entries map[string][]probing.Entry
	records map[string]map[probing.Slot]probing.Record
	reports map[string][]probing.Report
	written map[string]time.Time
	writes  int
}

func newFleet(nodes, pods, probes int) *fleet {
	f := &fleet{
		targets: map[string][]probing.Target{}, entries: map[string][]probing.Entry{}, records: map[string]map[probing.Slot]probing.Record{},
		reports: map[string][]probing.Report{}, written: map[string]time.Time{},
	}
	for n := range nodes {
		node := fmt.Sprint("n", n)
		for i := range pods {
			var names []string
			for k := range probes {
				names = append(names, fmt.Sprint("m#p", k))
			}
			f.entries[node] = append(f.entries[node], entry(fmt.Sprint(node, "-", i), names...))
		}
		f.targets[node] = probing.Targets(f.entries[node], at(0))
		f.records[node] = map[probing.Slot]probing.Record{}
	}
	return f
}

// round runs every probe that is due, and writes the reports of each agent whose Publication asks for a write.
func (f *fleet) round(now time.Time, result func(slot probing.Slot) probing.Result) (ran int) {
	for node, targets := range f.targets {
		for i := range targets {
			slot := targets[i].Slot()
			step := probing.Next(&targets[i], f.records[node][slot], running("a"), now)
			if step.Run {
				ran++
				step.Record = probing.Observe(&targets[i], step.Record, step.Record, result(slot), now)
			}
			f.records[node][slot] = step.Record
		}
		if p := probing.Publish(f.reports[node], f.entries[node], f.records[node], probing.Rhythm{}, f.written[node], now); p.Write {
			f.writes++
			f.reports[node], f.written[node] = p.Reports, now
		}
	}
	return ran
}

// TestScale: with 100,000 probes on 1,000 Nodes, an agent writes only if a state or message has changed. A probe
// whose message changes with each result costs one write every ten seconds.
func TestScale(t *testing.T) {
	f := newFleet(1000, 25, 4)
	fine := func(probing.Slot) probing.Result { return probing.Result{Verdict: probing.Pass, Message: "fine"} }
	if ran := f.round(at(10), fine); ran != 100_000 || f.writes != 1000 {
		t.Fatalf("the first round: %d results, %d writes", ran, f.writes)
	}
	f.writes = 0
	for second := range 3 {
		if ran := f.round(at(float64(20+second)), fine); ran != 100_000 || f.writes != 0 {
			t.Fatalf("second %d: %d results, %d writes", 20+second, ran, f.writes)
		}
	}
	odd := probing.Slot{Pod: "n7-3", Probe: "m#p2"}
	f.round(at(30), func(s probing.Slot) probing.Result {
		if s == odd {
			return probing.Result{Verdict: probing.Fail, Message: "broken"}
		}
		return fine(s)
	})
	if f.writes != 1 {
		t.Errorf("a single failure: %d writes", f.writes)
	}
	small := newFleet(1, 25, 4)
	for second := range 60 {
		small.round(at(float64(10+second)), func(s probing.Slot) probing.Result {
			return probing.Result{Verdict: probing.Pass, Message: fmt.Sprint(second)}
		})
	}
	if small.writes != 6 {
		t.Errorf("changing messages: %d writes in a minute", small.writes)
	}
}

func BenchmarkPublish(b *testing.B) {
	f := newFleet(1, 25, 4)
	fine := func(probing.Slot) probing.Result { return probing.Result{Verdict: probing.Pass, Message: "fine"} }
	f.round(at(10), fine)
	for b.Loop() {
		probing.Publish(f.reports["n0"], f.entries["n0"], f.records["n0"], probing.Rhythm{}, at(10), at(20))
	}
}
