package numbered

import "github.com/workloadkit/workloadkit/rollout"

// parallel plans all Pods at once. All actions that take Pods out of service share the budget MaxUnavailable. Ordinals
// without an available Pod count against the budget, whatever the cause.
func (r *roster) parallel() {
	r.scaleOut()
	r.scaleIn()
	// A budget above the number of wanted Pods has no further effect, and larger numbers could overflow.
	room := min(r.MaxUnavailable, r.Wanted.Len()) - r.unavailable()
	if !r.stopped() {
		r.updateAll(r.deleteSpecified(room))
	}
	r.explainWaiting()
}

// scaleOut goes through the wanted ordinals from the lowest: scaleOut creates missing Pods and deletes ended Pods until
// ScaleMaxUnavailable is reached.
func (r *roster) scaleOut() {
	left := r.Wanted.Len()
	if r.ScaleMaxUnavailable != nil {
		left = min(left, *r.ScaleMaxUnavailable)
	}
	old := r.oldRevision()
	rank, waiting := 0, 0 // rank of the next ordinal; number of ordinals left out because of the limit
	fill := func(to int) {
		for ; rank < to && left > 0 && len(r.create) < maxCreate; rank++ {
			ordinal, _ := r.Wanted.At(rank)
			r.create = append(r.create, Create{Ordinal: ordinal, Old: old(rank)})
			left--
		}
		waiting += to - rank
		rank = to
	}
	for i := range r.pods {
		e := &r.pods[i]
		if !e.wanted {
			continue
		}
		fill(e.rank)
		rank++
		switch {
		case e.available():
		case left > 0:
			left--
			if e.Health == rollout.Ended && !e.Resting {
				e.act = remove
			}
		case e.Health == rollout.Ended && e.act == leave:
			waiting++
		}
	}
	fill(r.Wanted.Len())
	if limit := r.ScaleMaxUnavailable; limit != nil && left <= 0 && waiting > 0 {
		r.Limitf(rollout.ScaleUpLimited, r.paths().ScaleMaxUnavailable,
			"wait for Pods to become available, or raise the limit",
			"%d Pods are created now, %d that are missing or have ended wait; %d may be unavailable",
			len(r.create), waiting, *limit)
	}
}

// scaleIn deletes unwanted Pods. An available Pod is deleted only while enough Pods remain available.
func (r *roster) scaleIn() {
	spare := r.available + r.excess - r.Wanted.Len() + min(r.MaxUnavailable, r.Wanted.Len())
	waiting := 0
	for e := range r.descending {
		switch {
		case e.wanted || e.Health == rollout.Terminating:
		case !e.available() || r.UnlimitedScaleIn:
			e.act = remove
		case spare > 0:
			e.act = remove
			spare--
		default:
			waiting++
		}
	}
	if waiting > 0 {
		r.Limitf(rollout.DeleteLimited, r.paths().MaxUnavailable,
			"wait for Pods to become available, or raise the limit",
			"%d available Pods that are not wanted stay for now: "+
				"%d of %d wanted ordinals have no available Pod, %d may",
			waiting, r.unavailable(), r.Wanted.Len(), r.MaxUnavailable)
	}
}

// deleteSpecified deletes Specified Pods, from the highest ordinal, and returns how much of the budget remains.
func (r *roster) deleteSpecified(room int) int {
	waiting := 0
	for e := range r.descending {
		switch {
		case !e.Specified || !e.wanted || e.Health == rollout.Terminating || e.act != leave:
		case !e.available():
			e.act = remove
		case room > 0:
			e.act = remove
			room--
		default:
			waiting++
		}
	}
	if waiting > 0 {
		r.Limitf(rollout.DeleteLimited, r.paths().MaxUnavailable,
			"wait for Pods to become available, or raise the limit",
			"%d available Pods are to be deleted; %d Pods are unavailable, %d may be",
			waiting, r.unavailable(), r.MaxUnavailable)
	}
	return room
}

// updateAll updates Pods in order. If the budget does not allow the update of a Pod, later Pods are still considered:
// the update of an unavailable Pod needs no budget, and this Pod may be the reason why the budget is used up.
func (r *roster) updateAll(room int) {
	repairs := max(r.MaxUnavailable, 1) - r.untested
	waiting := 0
	for e := range r.inUpdateOrder {
		switch {
		case !e.due || e.Specified || e.begun() || e.Health == rollout.Ended:
		case e.available() && room > 0:
			e.act = update
			room--
		case !e.available() && (repairs > 0 || r.UnlimitedRepair) && (!e.Starting || waiting == 0):
			e.act = update
			repairs--
		default:
			waiting++
		}
	}
	if waiting > 0 && r.unavailable() >= r.MaxUnavailable {
		r.Limitf(rollout.UpdateLimited, r.paths().MaxUnavailable,
			"wait for Pods to become available, or raise the limit",
			"%d Pods wait for their update; %d Pods are unavailable, %d of them at the new revision; %d may be",
			waiting, r.unavailable(), r.untested, r.MaxUnavailable)
	}
}
