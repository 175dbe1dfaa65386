package bench

import (
	"math"
	"slices"
	"time"
)

// life has the observations of a Pod in a phase. Times count from the beginning of the phase.
type life struct {
	pod, object string
	// existed is set for a Pod from before the phase.
	existed bool
	// gone is when the Pod was deleted or asked to end; 0 for a Pod that stayed.
	gone time.Duration
	// moments are the changes of the Pod's state, in order. The first moment is the first sight of the Pod or the
	// beginning of the phase.
	moments []moment
	// touched is set if the object was written at all.
	touched bool
}

// moment is a state that a Pod enters.
type moment struct {
	at time.Duration
	// updated is true if the Pod's spec equals the phase's template.
	updated bool
	// ready is the Pod's condition. An updated Pod counts as ready only when its containers run their images.
	ready bool
	// closed is true if a readiness gate of the Pod is not open: the gate's owner has taken the Pod's traffic away.
	closed bool
}

// sameAs compares all but the time.
func (m moment) sameAs(other moment) bool {
	m.at = other.at
	return m == other
}

// Durations summarises the time that something took for Pods, in seconds.
type Durations struct {
	Pods   int     `json:"pods"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// outOfService returns how long Pods that stayed were not ready, a duration for each time.
func outOfService(lives []life) []time.Duration {
	return spells(lives, func(m moment) bool { return !m.ready })
}

// gateClosed returns how long a readiness gate of Pods that stayed was closed. Unlike outOfService, gateClosed does not
// wait for the kubelet's Ready.
func gateClosed(lives []life) []time.Duration {
	return spells(lives, func(m moment) bool { return m.closed })
}

// spells returns how long the Pods that stayed were in a state, a duration for each finished spell.
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

// starting returns how long new Pods took from the first sight to ready.
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

// lastUpdate returns when the last Pod got the phase's template, and when the last Pod was ready with the template.
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

// tally counts kept Pods, new Pods, deleted Pods and touched Pods.
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
