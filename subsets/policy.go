package subsets

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// Policy says how long Pods are awaited, and how long a subset stays closed. The zero value has the durations of
// OpenKruise and never closes a subset.
type Policy struct {
	// CreatingFor is how long a place stays taken for a Pod that does not appear, 30 s if zero. DeletingFor is how
	// long the place of a Pod let go stays free while the Pod is still there, 15 s if zero. No cache may be later.
	CreatingFor, DeletingFor time.Duration
	// PendingFor is how long a Pod may be unschedulable before its subset is closed; 0 closes no subset.
	PendingFor time.Duration
	// ClosedFor is how long a subset stays closed, 300 s if zero.
	ClosedFor time.Duration
}

// RenewedAfter is the age of a place from which on a further request under its key renews the place: the last request
// came at most RenewedAfter after the time in the book.
const RenewedAfter = 2 * time.Second

const (
	defaultCreatingFor = 30 * time.Second
	defaultDeletingFor = 15 * time.Second
	defaultClosedFor   = 300 * time.Second
)

func (p Policy) complete() Policy {
	for _, d := range []struct {
		field *time.Duration
		usual time.Duration
	}{{&p.CreatingFor, defaultCreatingFor}, {&p.DeletingFor, defaultDeletingFor}, {&p.ClosedFor, defaultClosedFor}} {
		if *d.field <= 0 {
			*d.field = d.usual
		}
	}
	return p
}

// IsStuck reports whether a Pod has been unschedulable for longer than PendingFor. If not yet, wait says when the Pod
// will be, 0 for a Pod that is not unschedulable.
func (p Policy) IsStuck(pod *corev1.Pod, now time.Time) (stuck bool, wait time.Duration) {
	pending := podstate.IsActive(pod) && !podstate.IsScheduled(pod) && pod.Status.Phase == corev1.PodPending
	scheduled := podstate.Condition(pod, corev1.PodScheduled)
	if p.PendingFor <= 0 || !pending || scheduled == nil || scheduled.Status != corev1.ConditionFalse ||
		scheduled.Reason != corev1.PodReasonUnschedulable {
		return false, 0
	}
	since := pod.CreationTimestamp.Time
	if scheduled.LastTransitionTime.After(since) {
		since = scheduled.LastTransitionTime.Time
	}
	if wait = p.PendingFor - now.Sub(since); wait < 0 {
		return true, 0
	}
	return false, max(wait, time.Nanosecond)
}

// Mark is the standing of a subset, and the time of the last change between closed and not closed.
type Mark struct {
	Standing Standing  `json:"standing,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

// Next returns the standing of a subset with that many stuck Pods, and when to look again, 0 for no need. A subset with
// stuck Pods is closed. A closed subset opens again after ClosedFor, if no Pod is stuck then. A subset of an unknown
// Standing, and a closed subset without a time, are closed from now on. A caller whose Pods must go somewhere does not
// ask for the last subset.
func (p Policy) Next(was Mark, stuck int, now time.Time) (Mark, time.Duration) {
	p = p.complete()
	closed := was.Standing != "" && was.Standing != Open && was.Standing != OnTrial
	if closed && (was.Standing != Closed || was.Since.IsZero()) {
		was = Mark{Closed, now}
	}
	switch {
	case !closed && p.PendingFor > 0 && stuck > 0:
		return Mark{Closed, now}, 0
	case !closed:
		return Mark{Open, was.Since}, 0
	case p.PendingFor <= 0:
		return Mark{Open, now}, 0
	case stuck > 0:
		return was, 0
	}
	// A time from further in the future than ClosedFor is no difference of clocks.
	if wait := p.ClosedFor - now.Sub(was.Since); wait > 0 && wait <= 2*p.ClosedFor {
		return was, min(wait, p.ClosedFor)
	}
	return Mark{Open, now}, 0
}

// IsReserved reports whether a Pod keeps a place for which other subsets have a substitute (Config.Reserve), and when
// to look again, 0 for no need. was is the former answer, remembered with the Pod, nil for a new Pod; in is the
// standing of the Pod's subset.
//
// A new Pod in a closed subset is reserved, and so is a stuck Pod, until the Pod has been ready for ClosedFor. Count
// the other Pods as State.Settled. A Pod of an old revision proves nothing: a caller leaves such a Pod as before.
func (p Policy) IsReserved(pod *corev1.Pod, was *bool, in Standing, now time.Time) (bool, time.Duration) {
	p = p.complete()
	if was == nil && in != Closed || was != nil && !*was {
		return p.IsStuck(pod, now)
	}
	ready, wait := podstate.Available(pod, p.ClosedFor, now)
	return !ready || !podstate.IsActive(pod), wait
}

// Proving is Next for Config.Reserve, where pending Pods keep their place and prove when the subset has room again: a
// subset with reserved Pods is closed, and a closed subset without reserved Pods is on trial. If the next division
// gives a subset on trial more Pods than before, store the subset as Closed, otherwise as Open.
func Proving(was Standing, reserved int) Standing {
	switch {
	case reserved > 0:
		return Closed
	case was == Closed || was == OnTrial:
		return OnTrial
	}
	return Open
}

func sortedKeys(m map[string]metav1.Time) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
