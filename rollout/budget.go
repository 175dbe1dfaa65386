package rollout

// UpdateBudget decides, Pod by Pod in update order, whether one more may be updated now. It holds two limits beside the step's number: Pods at the
// target revision that are not available yet plus those chosen now stay within the budget, so that a revision that never
// becomes available stops early; and available Pods are only taken while fewer than the budget are unavailable in all.
//
// An available Pod for which there is no room does not end the round: a Pod behind it that is unavailable already loses
// nothing by its update, and may be what keeps the budget used up. The zero value admits nothing.
type UpdateBudget struct {
	left        int
	keep        int
	limit       int
	targetLimit int
	atTarget    int
	unavailable int
}

// NewUpdateBudget starts a round of a step. targetUnavailable counts the unavailable Pods at the revision that Pods are
// taken to, and unavailable all of them.
func NewUpdateBudget(step Step, targetUnavailable, unavailable int) UpdateBudget {
	return UpdateBudget{
		left: abs(step.Update), keep: step.Keep, limit: step.UpdateUnavailable, targetLimit: step.UpdateAtTarget, atTarget: targetUnavailable, unavailable: unavailable,
	}
}

// Admit reports whether the next candidate may be updated, and takes it off the budget if so.
func (b *UpdateBudget) Admit(available bool) bool {
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

// Candidates returns those of the waiting Pods, given in update order, that may be updated at all: all but the last, which
// stay where they are. The slice is shared.
func Candidates[T any](step Step, waiting []T) []T { return waiting[:max(len(waiting)-step.Keep, 0)] }

// Admitted returns those of the waiting Pods, given in update order, that are to be updated now. available tells which of
// them serve.
func Admitted[T any](b UpdateBudget, waiting []T, available func(T) bool) []T {
	var out []T
	for _, c := range Candidates(Step{Keep: b.keep}, waiting) {
		if b.Admit(available(c)) {
			out = append(out, c)
		}
	}
	return out
}

// Affordable returns the candidates for deletion, in their order, without the ready ones that Step.DeleteReady has no room for:
// what does not serve is deleted freely. ready tells which of them serve now.
func Affordable[T any](step Step, candidates []T, ready func(T) bool) []T {
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
