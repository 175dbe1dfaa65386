package guard

import (
	"context"
	"errors"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
)

// AskAll is like Ask, for a Pod with several budgets, each listed once: the request is admitted if all budgets admit
// the request. The result by is the budget that has refused the request or, if all budgets have admitted the request,
// the last budget. AskAll asks all budgets before spending from any budget. If somebody else spends from a budget at
// the same moment, the request may be refused after spending from earlier budgets. The entries in the earlier budgets
// stay for Policy.LeavingFor or ChangingFor, so a repeated request for the same Pod needs no further entries.
func (g *Guard[O]) AskAll(ctx context.Context, keys []client.ObjectKey, request disruption.Request, dryRun bool) (decision disruption.Decision, by client.ObjectKey, err error) {
	if g == nil || g.statuses == nil {
		return decision, by, errNotMade
	}
	if len(keys) == 0 {
		return decision, by, errors.New("guard: no budget is named")
	}
	keys = distinct(keys)
	if len(keys) == 1 {
		decision, err = g.Ask(ctx, keys[0], request, dryRun)
		return decision, keys[0], err
	}
	if decision, by, err = g.askEach(ctx, keys, request, true); dryRun || err != nil || !decision.Admitted {
		return decision, by, err
	}
	spent := false
	for range rounds {
		began := g.config.Clock.Now()
		if decision, by, err = g.askEach(ctx, keys, request, false); err != nil || !decision.Admitted || g.config.Clock.Since(began) < prompt {
			return ofOwn(decision, spent), by, err
		}
		// The budget has an entry now. In the next round, the entry belongs to the request itself (ofOwn).
		spent = spent || decision.Reason.Code == ""
	}
	return contended(by), by, nil
}

// distinct returns the keys, each once: AskAll would spend twice from a budget listed twice.
func distinct(keys []client.ObjectKey) (out []client.ObjectKey) {
	for _, key := range keys {
		if !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// rounds is the largest number of times that AskAll asks all budgets of a Pod. AskAll asks again if a round has taken
// longer than prompt, because the first budget's entry may have expired.
const rounds = 3

// askEach asks the budgets one after the other, until a budget refuses.
func (g *Guard[O]) askEach(ctx context.Context, keys []client.ObjectKey, request disruption.Request, dryRun bool) (decision disruption.Decision, by client.ObjectKey, err error) {
	for _, by = range keys {
		if decision, err = g.Ask(ctx, by, request, dryRun); err != nil || !decision.Admitted {
			break
		}
	}
	return decision, by, err
}
