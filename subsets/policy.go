package subsets

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// Policy says how long to wait for Pods, and how long a subset stays closed. The zero value has OpenKruise's default
// durations and never closes a subset.
type Policy struct {
	// CreatingFor is how long a place stays taken for a Pod that is not created, 30 s if zero. DeletingFor is how long
	// the place of a Pod whose deletion was admitted counts as free while the Pod still exists, 15 s if zero. Caches
	// must be up to date within these times.
	CreatingFor, DeletingFor time.Duration
	// PendingFor is how long a Pod may be unschedulable before its subset is closed; if 0, subsets are never closed.
	PendingFor time.Duration
	// ClosedFor is how long a subset stays closed, 300 s if zero.
	ClosedFor time.Duration
}

// RenewedAfter is the age of a place's recorded time from which a further request with the same key renews the time.
// So the recorded time is at most RenewedAfter older than the last request.
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

// IsStuck reports whether a Pod has been unschedulable for longer than PendingFor. If the Pod is unschedulable, but
// not for so long yet, wait is the time until the Pod is stuck; otherwise wait is 0.
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

// Mark is the standing of a subset, and when the subset was last closed or opened.
type Mark struct {
	Standing Standing  `json:"standing,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

// Next returns the standing of a subset with the given number of stuck Pods, and the time until the next call, or 0 if
// no further call is needed. A subset with stuck Pods is closed. A closed subset opens again after ClosedFor, if no Pod
// is stuck then. A subset of an unknown Standing, and a closed subset without a time, are closed from now on. If every
// Pod must get a subset, do not call Next for the last subset, so that the last subset never closes.
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
	// If the time is further in the future than ClosedFor, clock differences cannot explain the time.
	if wait := p.ClosedFor - now.Sub(was.Since); wait > 0 && wait <= 2*p.ClosedFor {
		return was, min(wait, p.ClosedFor)
	}
	return Mark{Open, now}, 0
}

// IsReserved reports whether a Pod keeps a place for which other subsets have a substitute (Config.Reserve), and the
// time until IsReserved must be called again; 0 if never. The argument was is the last result for the Pod, stored by
// the caller, or nil for a new Pod. The argument in is the standing of the Pod's subset.
//
// A new Pod in a closed subset is reserved, and a stuck Pod becomes reserved; a Pod stays reserved until the Pod has
// been ready for ClosedFor. Count all other Pods as State.Settled. Do not call IsReserved for a Pod of an old
// revision, but keep the last result: the state of such a Pod does not show whether the subset can run new Pods.
func (p Policy) IsReserved(pod *corev1.Pod, was *bool, in Standing, now time.Time) (bool, time.Duration) {
	p = p.complete()
	if was == nil && in != Closed || was != nil && !*was {
		return p.IsStuck(pod, now)
	}
	ready, wait := podstate.Available(pod, p.ClosedFor, now)
	return !ready || !podstate.IsActive(pod), wait
}

// Proving returns the next standing of a subset if Config.Reserve is set. Pending Pods then keep their place, and
// their state shows when the subset can run Pods again: a subset with reserved Pods is closed, and a closed subset
// without reserved Pods is on trial. If the next division gives a subset on trial more Pods than the previous
// division, store the subset as Closed, otherwise as Open.
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
