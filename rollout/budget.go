package rollout

// updateBudget decides, Pod by Pod in update order, whether a further Pod may be updated now. updateBudget holds two
// limits beside the step's number. First, the unavailable Pods at the target revision plus the Pods chosen now stay
// within the budget, so a revision that never becomes available stops early. Second, available Pods are taken only
// while fewer than the budget are unavailable in all.
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

// down is the number of Pods of the group that are not available, for any reason.
func (g Group) down() int { return g.PreDeleting + g.SpecifiedUnavailable + g.Unavailable }

// admit reports whether the next candidate may be updated, and reduces the budget if so.
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

// ToUpdate returns the waiting Pods to update now. c are the counts with which the step was planned. waiting are all
// Pods at the old revision (with Step.Back: at the new revision) without a wish for deletion, in update order. The last
// waiting Pods stay, so do not leave out any Pod. available tells whether a Pod serves.
//
// An available Pod without room in the budget does not end the round. A later unavailable Pod loses nothing by its
// update, and may be the reason why the budget is used up.
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

// ToKeep returns the waiting Pods that stay, as a partition wants: the last Step.Keep. waiting is the same list as for
// ToUpdate. The slice is shared.
func ToKeep[T any](step Step, waiting []T) []T { return waiting[max(len(waiting)-step.Keep, 0):] }

// ToDelete returns the candidates for deletion, in order, without the ready Pods for which Step.DeleteReady has no
// room. The candidates are Pods with a decided deletion: the Pods named by somebody or, if nobody named any,
// Step.Delete Pods in deletion order, Step.DeleteOld of them from the old revision. ready tells whether a Pod serves
// now.
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
