package bench

import (
	"math"
	"slices"
	"time"
)

// life contains the observations of a Pod in a phase. Times count from the beginning of the phase.
type life struct {
	pod, object string
	// existed is true if the Pod existed before the phase.
	existed bool
	// gone is the time at which the Pod was deleted or began to terminate. gone is 0 if the Pod still exists.
	gone time.Duration
	// moments contains the changes of the Pod's state, in order. The first moment is the first event of the Pod. For a
	// Pod that existed before, the first moment is the beginning of the phase.
	moments []moment
	// touched is true if any client has written the Pod.
	touched bool
}

// moment is a state of a Pod, together with the time at which the state began.
type moment struct {
	at time.Duration
	// updated is true if the Pod's spec equals the phase's template.
	updated bool
	// ready is true if the Pod's Ready condition is True. An updated Pod counts as ready only if its containers also run
	// the images of its spec.
	ready bool
	// closed is true if a readiness gate of the Pod is closed. A closed gate means that the controller of the gate
	// has taken the Pod out of service.
	closed bool
}

// sameAs reports whether all fields except the time are equal.
func (m moment) sameAs(other moment) bool {
	m.at = other.at
	return m == other
}

// Durations summarises how long something took for several Pods, in seconds.
type Durations struct {
	Pods   int     `json:"pods"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// outOfService returns how long Pods that were not recreated were not ready. There is one duration for each period.
func outOfService(lives []life) []time.Duration {
	return spells(lives, func(m moment) bool { return !m.ready })
}

// gateClosed returns how long a readiness gate was closed, for Pods that were not recreated. Unlike outOfService,
// gateClosed does not depend on the time at which the kubelet reports Ready.
func gateClosed(lives []life) []time.Duration {
	return spells(lives, func(m moment) bool { return m.closed })
}

// spells returns how long Pods that were not recreated were in a state for which the function in returns true. There
// is one duration for each period that has ended.
func spells(lives []life, in func(moment) bool) []time.Duration {
	var out []time.Duration
	for _, l := range lives {
		if !l.existed || l.gone > 0 {
			continue
		}
		since := time.Duration(-1)
		for _, m := range l.moments {
			switch {
			case in(m) && since < 0:
				since = m.at
			case !in(m) && since >= 0:
				out = append(out, m.at-since)
				since = -1
			}
		}
	}
	return out
}

// starting returns how long new Pods took from their first event until they were ready.
func starting(lives []life) []time.Duration {
	var out []time.Duration
	for _, l := range lives {
		if l.existed {
			continue
		}
		if i := slices.IndexFunc(l.moments, func(m moment) bool { return m.ready }); i >= 0 {
			out = append(out, l.moments[i].at-l.moments[0].at)
		}
	}
	return out
}

// lastUpdate returns two times: when the last Pod got the template of the phase, and when the last Pod was ready with
// this template.
func lastUpdate(lives []life) (updated, ready time.Duration) {
	for _, l := range lives {
		if l.gone > 0 {
			continue
		}
		if i := slices.IndexFunc(l.moments, func(m moment) bool { return m.updated }); i >= 0 {
			updated = max(updated, l.moments[i].at)
		}
		if i := slices.IndexFunc(l.moments, func(m moment) bool { return m.updated && m.ready }); i >= 0 {
			ready = max(ready, l.moments[i].at)
		}
	}
	return updated, ready
}

// tally returns the numbers of kept, new, deleted and written Pods.
func tally(lives []life) (kept, created, deleted, touched int) {
	for _, l := range lives {
		switch {
		case !l.existed:
			created++
		case l.gone == 0:
			kept++
		}
		if l.gone > 0 {
			deleted++
		}
		if l.touched {
			touched++
		}
	}
	return kept, created, deleted, touched
}

// summarise returns the percentiles by nearest rank: of 20 durations, p95 is the 19th.
func summarise(durations []time.Duration) *Durations {
	if len(durations) == 0 {
		return nil
	}
	durations = slices.Sorted(slices.Values(durations))
	at := func(q float64) float64 {
		rank := int(math.Ceil(q * float64(len(durations))))
		return durations[max(rank, 1)-1].Seconds()
	}
	return &Durations{Pods: len(durations), Median: at(0.5), P95: at(0.95), Max: at(1)}
}
