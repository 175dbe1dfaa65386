package rollout

// updateBudget decides, Pod by Pod in update order, whether one more may be updated now. It holds two limits beside the step's
// number: Pods at the target revision that are not available yet plus those chosen now stay within the budget, so that a
// revision that never becomes available stops early; and available Pods are only taken while fewer than the budget are
// unavailable in all.
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
		left: step.Update, limit: step.UpdateUnavailable, targetLimit: step.UpdateAtTarget,
		atTarget: target.down(), unavailable: c.Old.down() + c.New.down(),
	}
}

// down is how many Pods of the group are not available, whatever is to become of them.
func (g Group) down() int { return g.PreDeleting + g.SpecifiedUnavailable + g.Unavailable }

// admit reports whether the next candidate may be updated, and takes it off the budget if so.
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

// ToUpdate returns those of the waiting Pods that are to be updated now. c are the counts that the step was planned with. waiting
// are all Pods at the other revision that nobody wants deleted, in update order: the last of them stay where they are, so do not
// leave out any. available tells which of them serve.
//
// An available Pod for which there is no room does not end the round: a Pod behind it that is unavailable already loses
// nothing by its update, and may be what keeps the budget used up.
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

// ToKeep returns those of the waiting Pods that stay where they are, as a partition wants: the last Step.Keep. waiting is what
// ToUpdate is given. The slice is shared.
func ToKeep[T any](step Step, waiting []T) []T { return waiting[max(len(waiting)-step.Keep, 0):] }

// ToDelete returns the candidates for deletion, in their order, without the ready ones that Step.DeleteReady has no room for.
// The candidates are Pods whose deletion is decided: those that somebody has named or, where there are none, Step.Delete Pods in
// deletion order, Step.DeleteOld of them from the old revision. ready tells which of them serve now.
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
