package rollout

// updateBudget decides, for each Pod in update order, whether the Pod may be updated now. Besides the
// step's number of updates, updateBudget enforces two limits. First, the unavailable Pods at the target revision plus
// the Pods chosen now stay within the budget, so that a revision whose Pods never become available stops the rollout
// early. Second, an available Pod is chosen only while fewer Pods than the budget are unavailable in total.
type updateBudget struct {
	left        int
	limit       int
	targetLimit int
	atTarget    int
	unavailable int
}

func newUpdateBudget(step Step, c Counts) updateBudget {
	target := c.New
	if step.Back {
		target = c.Old
	}
	return updateBudget{
		left: step.Candidates, limit: step.UpdateUnavailable, targetLimit: step.UpdateAtTarget,
		atTarget: target.down(), unavailable: c.Old.down() + c.New.down(),
	}
}

// down is the number of Pods of the group that are unavailable, for any reason.
func (g Group) down() int { return g.PreDeleting + g.SpecifiedUnavailable + g.Unavailable }

// admit reports whether the next Pod in update order may be updated, and if so reduces the budget.
func (b *updateBudget) admit(available bool) bool {
	if b.left <= 0 || b.atTarget >= b.targetLimit {
		return false
	}
	if available {
		if b.unavailable >= b.limit {
			return false
		}
		b.unavailable++
	}
	b.atTarget++
	b.left--
	return true
}

// ToUpdate returns the waiting Pods to update now. c are the counts with which Plan computed the step. waiting holds
// all Pods at the old revision (if Step.Back is set: at the new revision) whose deletion nobody has requested, in
// update order. ToUpdate leaves the last Step.Keep Pods of the list at their revision, so the list must be complete.
// available reports whether a Pod is available.
//
// If the budget does not allow the update of an available Pod, later Pods are still considered. The update of an
// unavailable Pod takes no further Pod out of service, and the unavailable Pod itself may be the reason why the
// budget is used up.
func ToUpdate[T any](step Step, c Counts, waiting []T, available func(T) bool) []T {
	budget := newUpdateBudget(step, c)
	var out []T
	for _, candidate := range waiting[:max(len(waiting)-step.Keep, 0)] {
		if budget.admit(available(candidate)) {
			out = append(out, candidate)
		}
	}
	return out
}

// ToKeep returns the waiting Pods that a partition keeps at their revision: the last Step.Keep Pods. Pass the same list
// waiting as to ToUpdate. The result shares memory with waiting.
func ToKeep[T any](step Step, waiting []T) []T { return waiting[max(len(waiting)-step.Keep, 0):] }

// ToDelete returns the Pods to delete now, in order: all candidates, but at most Step.DeleteReady of the ready Pods.
// The candidates are the Pods whose deletion is decided: the Pods whose deletion users have requested or, if there
// are none, Step.Delete Pods in deletion order, of which Step.DeleteOld are at the old revision. ready reports
// whether a Pod is ready now.
func ToDelete[T any](step Step, candidates []T, ready func(T) bool) []T {
	var out []T
	left := step.DeleteReady
	for _, c := range candidates {
		if ready(c) {
			if left--; left < 0 {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}
