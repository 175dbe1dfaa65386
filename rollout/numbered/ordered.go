package numbered

import (
	"slices"

	"github.com/workloadkit/workloadkit/rollout"
)

// ordered plans a single Pod at a time: first the lowest wanted ordinal without an available Pod, then unwanted Pods,
// then Pods to delete or update, from the highest ordinal.
func (r *roster) ordered() {
	switch {
	case r.unavailable() > 0:
		if !r.scaleNext() && !r.waitsForBegun() {
			r.repairNext()
		}
	case r.waitsForBegun() || r.scaleInWaits() || r.scaleInNext() || r.stopped():
	default:
		r.updateNext()
	}
	r.explainWaiting()
}

// awaitf records the ordinal of the Pod that the rollout waits for, with a reason.
func (r *roster) awaitf(ordinal int, remedy, format string, args ...any) {
	r.awaited = &ordinal
	r.Limitf(rollout.OrderedWait, "", remedy, format, args...)
}

// scaleNext creates the Pod of the lowest wanted ordinal without an available Pod, or deletes an ended Pod of this
// ordinal. scaleNext reports whether the step has something to do.
func (r *roster) scaleNext() bool {
	rank := 0
	for i := range r.pods {
		e := &r.pods[i]
		switch {
		case !e.wanted:
		case e.rank > rank: // the ordinals in between have no Pods
			return r.createNext(rank)
		case e.available():
			rank++
		case e.Health == rollout.Ended && !e.Resting && e.act == leave && r.mayCreate():
			e.act = remove
			return true
		default:
			return false
		}
	}
	return r.createNext(rank)
}

func (r *roster) createNext(rank int) bool {
	if !r.mayCreate() {
		return false
	}
	ordinal, _ := r.Wanted.At(rank)
	r.create = []Create{{Ordinal: ordinal, Old: r.oldRevision()(rank)}}
	return true
}

func (r *roster) mayCreate() bool {
	if limit := r.ScaleMaxUnavailable; limit != nil && *limit == 0 {
		r.Limitf(rollout.ScaleUpLimited, r.paths().ScaleMaxUnavailable, "raise the limit",
			"Pods are missing or have ended, and none may be created")
		return false
	}
	return true
}

// repairNext deletes or updates the unavailable Pod of the lowest wanted ordinal if the deletion or update may make
// the Pod available.
func (r *roster) repairNext() {
	first, highest := -1, r.highestDue()
	for i := range r.pods {
		e := &r.pods[i]
		if !e.wanted || e.available() {
			continue
		}
		if first < 0 {
			first = e.Ordinal
		}
		switch {
		case r.stopped() || e.Health == rollout.Ended:
		case e.Specified:
			e.act = remove
			return
		case e.due && r.untested == 0 && (!e.Starting || i == highest):
			e.act = update
			return
		}
	}
	r.awaitf(first, "wait until it is available, or delete it", "the Pod of ordinal %d is not available", first)
}

// waitsForBegun reports whether a deletion or update of any Pod is in progress.
func (r *roster) waitsForBegun() bool {
	for i := range r.pods {
		e := &r.pods[i]
		switch {
		case !e.begun() || (!e.wanted && e.Health != rollout.Terminating && !e.PreDeleting):
			continue
		case e.NotSelected: // explainWaiting adds this reason
		case e.Health != rollout.Terminating:
			r.awaitf(e.Ordinal, "release the hook that holds it", "the Pod of ordinal %d waits for a hook", e.Ordinal)
		default:
			r.awaitf(e.Ordinal, "wait until it is gone", "the Pod of ordinal %d is terminating", e.Ordinal)
		}
		return true
	}
	return false
}

// scaleInWaits reports whether the deletion of the highest unwanted Pod must wait, because neither this Pod nor a
// lower unwanted Pod is available: broken Pods may hold resources that other Pods need. The lowest such Pod is
// deleted without waiting, and no deletion waits for an ended Pod.
func (r *roster) scaleInWaits() bool {
	highest := -1
	for i := range slices.Backward(r.pods) {
		e := &r.pods[i]
		switch broken := e.Health != rollout.Ended && !e.available(); {
		case e.wanted:
		case highest < 0 && !broken:
			return false
		case highest < 0:
			highest = e.Ordinal
		case broken:
			r.awaitf(highest, "wait until it is available, or delete it",
				"the Pod of ordinal %d is not available, nor is that of %d; both are to go", highest, e.Ordinal)
			return true
		}
	}
	return false
}

// scaleInNext deletes the Pod of the highest unwanted ordinal, and reports whether there is such a Pod.
func (r *roster) scaleInNext() bool {
	for i := len(r.pods) - 1; i >= 0; i-- {
		if e := &r.pods[i]; !e.wanted {
			e.act = remove
			return true
		}
	}
	return false
}

// highestDue returns the index of the Pod with the highest ordinal among the Pods that must be updated, -1 if there
// is none.
func (r *roster) highestDue() int {
	for i := len(r.pods) - 1; i >= 0; i-- {
		if e := &r.pods[i]; e.due && !e.Specified {
			return i
		}
	}
	return -1
}

// updateNext deletes the Specified Pod with the highest ordinal. If there is no such Pod, updateNext updates the Pod
// with the highest ordinal that must be updated.
func (r *roster) updateNext() {
	specified, due := -1, r.highestDue()
	for i := range r.pods {
		if r.pods[i].Specified {
			specified = i
		}
	}
	switch {
	case specified < 0 && due < 0:
	case r.MaxUnavailable == 0:
		r.Limitf(rollout.UpdateLimited, r.paths().MaxUnavailable, "raise the limit",
			"no available Pod may be taken out of service")
	case specified >= 0:
		r.pods[specified].act = remove
	default:
		r.pods[due].act = update
	}
}
