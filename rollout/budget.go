package rollout

// UpdateBudget decides, Pod by Pod in update order, whether one more may be updated now (C-43). It holds two limits:
// Pods at the target revision that are not available yet plus those chosen now stay within the budget, so that a revision
// that never becomes available stops early; and available Pods are only taken while fewer than the budget are unavailable
// in all. The zero value admits nothing.
type UpdateBudget struct {
	limit       int
	atTarget    int
	unavailable int
}

// NewUpdateBudget starts a round. limit is Step.UpdateUnavailable, targetUnavailable counts the unavailable Pods at the
// revision that Pods are taken to, and unavailable all of them.
func NewUpdateBudget(limit, targetUnavailable, unavailable int) UpdateBudget {
	return UpdateBudget{limit: limit, atTarget: targetUnavailable, unavailable: unavailable}
}

// Admit reports whether the next candidate may be updated, and takes it off the budget if so. After the first refusal the
// round is over.
func (b *UpdateBudget) Admit(available bool) bool {
	if b.atTarget >= b.limit {
		return false
	}
	if available {
		if b.unavailable >= b.limit {
			return false
		}
		b.unavailable++
	}
	b.atTarget++
	return true
}

// Admitted returns the candidates, given in update order, up to the first that the budget has no room for. available tells
// which of them serve now. The slice is shared with the candidates'.
func Admitted[T any](b UpdateBudget, candidates []T, available func(T) bool) []T {
	for i, c := range candidates {
		if !b.Admit(available(c)) {
			return candidates[:i]
		}
	}
	return candidates
}

// Affordable returns the candidates for deletion, in their order, without the ready ones that Step.DeleteReady has no room for
// (C-17): what does not serve is deleted freely. ready tells which of them serve now.
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
