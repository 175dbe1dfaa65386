package probing

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Report contains the states of a Pod's probes in the status of a Node.
type Report struct {
	Namespace, Name string
	UID             types.UID
	States          []ProbeState
}

// ProbeState is the state of a probe in a Report.
type ProbeState struct {
	// Name is the name of the probe in the spec.
	Name    string
	State   State
	Message string
	// Probed is the time of the result. Changed is the time of the last change of State.
	Probed, Changed time.Time
}

// Rhythm limits the writes of an agent. The zero value is usable.
type Rhythm struct {
	// States is the shortest time between writes; zero means a second.
	States time.Duration
	// Messages is the shortest time between writes if only messages have changed; zero means 10 seconds. The limit
	// matters for messages that change with each result, for example messages that contain the time.
	Messages time.Duration
	// Refresh is the age at which an unchanged result is published again; zero means never.
	Refresh time.Duration
}

// Publication is the result of Publish.
type Publication struct {
	// Reports are the reports that the Node's status must contain.
	Reports []Report
	// Write is true if Reports must be written now.
	Write bool
	// After is the time until Publish must be called again even if no event occurs; zero for never.
	After time.Duration
}

// Publish returns the reports of an agent. before are the reports on the API server, and entries are the entries in
// the Node's spec. records are all records by slot. written is the time of the last write, or zero.
//
// If the record of a probe has no state, the reported state is kept. However, if the container has started after the
// reported state was probed, or if no state was reported yet, the state is Unknown. The state is also Unknown if the
// probe in the spec has changed since the result. Reports about probes and Pods without an entry are removed. If the
// state of a probe has not changed, the time Changed stays as reported before; if the message has not changed either,
// the time Probed also stays.
func Publish(before []Report, entries []Entry, records map[Slot]Record, rhythm Rhythm, written, now time.Time) Publication {
	p := &publishing{rhythm: rhythm, now: now}
	old := statesBySlot(before)
	reported := 0
	var out Publication
	for _, e := range entries {
		report := Report{Namespace: e.Namespace, Name: e.Name, UID: e.UID}
		seen := map[string]bool{}
		for _, a := range e.Probes {
			if seen[a.Name] {
				continue
			}
			seen[a.Name] = true
			slot := Slot{Pod: e.UID, Probe: a.Name}
			was, known := old[slot]
			if known {
				reported++
			}
			if state, ok := p.state(a.Name, was, known, p.current(records[slot], &a, e.IP)); ok {
				report.States = append(report.States, state)
			}
		}
		if len(report.States) > 0 {
			out.Reports = append(out.Reports, report)
		}
	}
	if p.states = p.states || reported != countStates(before); p.states || p.messages {
		out.Write, out.After = p.when(written)
	}
	if !out.Write && p.refresh > 0 && (out.After == 0 || p.refresh < out.After) {
		out.After = p.refresh
	}
	return out
}

// publishing collects the differences between old and new reports.
type publishing struct {
	rhythm Rhythm
	now    time.Time
	// states is true if a state has changed. messages is true if only a message has changed.
	states, messages bool
	// refresh is the time until the next refresh; zero for never.
	refresh time.Duration
}

// current returns the record of a probe. If the probe's check or container has changed since the record began, the
// state is Unknown until Next begins a new record.
func (p *publishing) current(record Record, a *Assigned, ip string) Record {
	if record.State == "" {
		return record
	}
	if check, err := checkOf(&a.Probe, ip); err == nil && record.Container == a.Container && sameCheck(record.Check, check) {
		return record
	}
	return Record{Instance: record.Instance, Started: record.Started, State: Unknown, Probed: record.Probed, Changed: p.now}
}

// state returns the state to report for a probe.
func (p *publishing) state(name string, was ProbeState, known bool, record Record) (state ProbeState, ok bool) {
	if record.State == "" && !known {
		p.states = p.states || record.Instance != ""
		return ProbeState{Name: name, State: Unknown, Changed: p.now}, record.Instance != ""
	}
	if record.State == "" {
		if record.Started.IsZero() || !record.Started.After(was.Probed) || was.State == Unknown {
			return was, true
		}
		p.states = true
		return ProbeState{Name: name, State: Unknown, Probed: was.Probed, Changed: p.now}, true
	}
	state = ProbeState{Name: name, State: record.State, Message: record.Message, Probed: record.Probed, Changed: record.Changed}
	switch {
	case !known || was.State != record.State:
		p.states = true
		return state, true
	case was.Message != record.Message:
		p.messages = true
	case p.rhythm.Refresh <= 0:
		return was, true
	case p.now.Sub(was.Probed) < p.rhythm.Refresh:
		if wait := p.rhythm.Refresh - p.now.Sub(was.Probed); p.refresh == 0 || wait < p.refresh {
			p.refresh = wait
		}
		return was, true
	case record.Probed.After(was.Probed):
		p.messages = true
	}
	state.Changed = was.Changed
	return state, true
}

// when returns whether to write now, or how long to wait. The wait is at most the interval, even if the clock was set
// back.
func (p *publishing) when(written time.Time) (now bool, wait time.Duration) {
	interval := time.Second
	if p.rhythm.States > 0 {
		interval = p.rhythm.States
	}
	if !p.states {
		longer := 10 * time.Second
		if p.rhythm.Messages > 0 {
			longer = p.rhythm.Messages
		}
		interval = max(interval, longer)
	}
	if written.IsZero() {
		return true, 0
	}
	if wait = min(written.Add(interval).Sub(p.now), interval); wait > 0 {
		return false, wait
	}
	return true, 0
}

func statesBySlot(reports []Report) map[Slot]ProbeState {
	out := map[Slot]ProbeState{}
	for _, r := range reports {
		for _, s := range r.States {
			if slot := (Slot{Pod: r.UID, Probe: s.Name}); out[slot].Name == "" {
				out[slot] = s
			}
		}
	}
	return out
}

func countStates(reports []Report) (n int) {
	for _, r := range reports {
		n += len(r.States)
	}
	return n
}
