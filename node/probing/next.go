package probing

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

// Slot identifies a probe of a Pod, and is the key of the probe's Record.
type Slot struct {
	Pod types.UID
	// Probe is the name of the probe: see Assigned.
	Probe string
}

// Target is a probe to run on a Node.
type Target struct {
	Assigned

	// Pod is the UID of the Pod.
	Pod types.UID
	// IP is the Pod's address.
	IP string
	// NotBefore is the earliest time of the first run, at most one period after the start of the agent. The times
	// differ between probes, so that not all probes run at the same time after the start of the agent.
	NotBefore time.Time
}

// Slot returns the key of the target's Record.
func (t *Target) Slot() Slot { return Slot{Pod: t.Pod, Probe: t.Name} }

// Targets returns the probes to run for the entries of a Node, in the order of the entries. If a probe is named
// twice, the result contains the first. started is the start time of the agent.
func Targets(entries []Entry, started time.Time) (targets []Target) {
	seen := map[Slot]bool{}
	for _, e := range entries {
		for _, p := range e.Probes {
			slot := Slot{Pod: e.UID, Probe: p.Name}
			if seen[slot] {
				continue
			}
			seen[slot] = true
			targets = append(targets, Target{
				Assigned: p, Pod: e.UID, IP: e.IP,
				NotBefore: spread(slot, started, seconds(p.Probe.PeriodSeconds)),
			})
		}
	}
	return targets
}

// spread returns a time within a period after the start of an agent. The time depends on the hash of the slot, so the
// first runs of many probes are spread evenly over the period.
func spread(slot Slot, started time.Time, period time.Duration) time.Time {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(slot.Pod)) // a hash returns no error
	_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(slot.Pod))))
	_, _ = sum.Write([]byte(slot.Probe))
	// The lowest bits of an FNV hash are distributed best.
	return started.Add(time.Duration(float64(period) * float64(sum.Sum64()&math.MaxUint16) / (math.MaxUint16 + 1)))
}

// Instance is the newest instance of a container in the Node's runtime.
type Instance struct {
	// ID is the ID of the instance; empty if the runtime has no instance, or does not know the instance's state.
	ID      string
	Running bool
	// Started is the time when the instance has started, by the Node's clock.
	Started time.Time
}

// Record contains the results of a probe for one instance of a container. The zero Record is the record of a new
// probe.
type Record struct {
	// Instance is the ID of the instance, and Container the name of the container.
	Instance, Container string
	// Started is the time when the instance has started.
	Started time.Time
	// Check is the check that has led to the results. A changed Check begins a new record.
	Check Check
	// State is empty if no result is known, for example after a start of the agent.
	State State
	// Message is the text of the result that led to State, of at most 1024 bytes.
	Message string
	// Streak is the number of equal results in a row: passes if positive, failures if negative.
	Streak int32
	// Probed is the time of the last result; Changed is the time of the last change of State.
	Probed, Changed time.Time
}

// Step is the next action for a probe.
type Step struct {
	// Record is the record that the caller must store for the probe.
	Record Record
	// Run is true if Record.Check must be carried out now. Pass the result to Observe together with Record, and do not
	// call Next again for the probe before the check has ended.
	Run bool
	// After is the time until Next must be called again even if no event occurs; zero for never.
	After time.Duration
	// Why explains why the probe cannot be run; Code is empty if the probe can be run.
	Why reason.Reason
}

// Next returns the next step for a probe whose container has the given instance. The defaults for missing numbers are
// a period, a timeout and an initial delay of one second, and thresholds of one. The kubelet's defaults differ: a
// period of ten seconds, no initial delay, and a failure threshold of three. If the container has ended, the state is
// Failed at once, whatever the threshold.
func Next(target *Target, record Record, instance Instance, now time.Time) Step {
	period := seconds(target.Probe.PeriodSeconds)
	step := Step{Record: record, After: period}
	check, err := checkOf(&target.Probe, target.IP)
	if err != nil {
		why := reason.From(err)[0]
		why.Path = "probes[" + target.Name + "]." + why.Path
		step.Why, step.After = why, 0
		return step
	}
	if instance.ID == "" {
		return step
	}
	if record.Instance != instance.ID || !sameCheck(record.Check, check) {
		step.Record = renewed(record, instance, check, now)
	}
	step.Record.Container = target.Container
	step.Record.Started = instance.Started
	step.Record.Check.Timeout = check.Timeout
	if !instance.Running {
		step.Record.Streak, step.Record.Probed = 0, now
		step.Record.conclude(Failed, "Container("+target.Container+") is Non-running", now)
		return step
	}
	wait := max(instance.Started.Add(seconds(target.Probe.InitialDelaySeconds)).Sub(now), 0)
	if step.Record.Probed.IsZero() {
		wait = max(wait, min(target.NotBefore.Sub(now), period))
	} else {
		// The wait is limited to the period, because Probed may be far in the future after the clock was set back.
		wait = max(wait, min(step.Record.Probed.Add(period).Sub(now), period))
	}
	if step.Run = wait <= 0; !step.Run {
		step.After = wait
	}
	return step
}

// renewed returns a new record. If the old record has a state for another instance or another check, the new state is
// Unknown. If no result is known, the state is empty, so that a restarted agent does not publish Unknown for all
// probes.
func renewed(old Record, instance Instance, check Check, now time.Time) Record {
	record := Record{Instance: instance.ID, Check: check, Probed: old.Probed}
	if old.Instance != instance.ID {
		record.Probed = time.Time{}
	}
	if old.State != "" {
		record.State, record.Changed = Unknown, now
		if old.State == Unknown {
			record.Changed = old.Changed
		}
	}
	return record
}

// sameCheck reports whether two checks are equal except for the timeout, because a change of timings must not discard
// results.
func sameCheck(a, b Check) bool {
	a.Timeout, b.Timeout = 0, 0
	return reflect.DeepEqual(a, b)
}

// Verdict is the outcome of a single check.
type Verdict uint8

// These are the outcomes of a check.
const (
	// Undecided means that the check could not be carried out, for example because the runtime does not respond. The
	// probe's state stays.
	Undecided Verdict = iota
	// Pass means that the container has passed the check.
	Pass
	// Fail means that the container has failed the check, or has not responded in time.
	Fail
)

// String returns the name of the verdict, for logs and metrics.
func (v Verdict) String() string {
	switch v {
	case Pass:
		return "Pass"
	case Fail:
		return "Fail"
	case Undecided:
		return "Undecided"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Result is the result of a single check.
type Result struct {
	Verdict Verdict
	// Message is text for people: the container's response, or the reason why the check has failed.
	Message string
}

// Observe returns the record after a result. asked is the Record of the Step that asked for the check, and record is
// the present record. The result has no effect if record belongs to another instance or another check than asked. The
// state changes after as many equal results in a row as the threshold says; before that, results do not change the
// message either.
func Observe(target *Target, record, asked Record, result Result, now time.Time) Record {
	if record.Instance != asked.Instance || !sameCheck(record.Check, asked.Check) {
		return record
	}
	record.Probed = now
	switch result.Verdict {
	case Pass:
		record.Streak = min(max(record.Streak, 0), math.MaxInt32-1) + 1
		if record.Streak >= max(target.Probe.SuccessThreshold, 1) {
			record.conclude(Succeeded, result.Message, now)
		}
	case Fail:
		record.Streak = max(min(record.Streak, 0), math.MinInt32+1) - 1
		if -int64(record.Streak) >= int64(max(target.Probe.FailureThreshold, 1)) {
			record.conclude(Failed, result.Message, now)
		}
	case Undecided:
	}
	return record
}

// conclude sets the state and the message, and the time of the change if the state differs.
func (r *Record) conclude(state State, message string, now time.Time) {
	if r.State != state {
		r.State, r.Changed = state, now
	}
	r.Message = cut(message)
}

// longestMessage is the largest number of bytes in a message, as in OpenKruise.
const longestMessage = 1024

// cut returns valid UTF-8 of at most 1024 bytes.
func cut(message string) string {
	if len(message) > 2*longestMessage {
		message = message[:2*longestMessage]
	}
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= longestMessage {
		return message
	}
	end := longestMessage
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end]
}

func objectOf(namespace, name string, uid types.UID) reason.Object {
	return reason.Object{Kind: "Pod", Namespace: namespace, Name: name, UID: uid}
}

func byPod(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
