package guard

import (
	"context"
	"errors"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
)

// AskAll is Ask for a Pod with several budgets, each named once: the Pod is let go if all budgets agree. by is the
// refusing budget, or the last agreeing budget. AskAll asks all budgets before spending from any. If somebody else
// spends from a budget at the same moment, the request's spending from the earlier budgets stays for Policy.LeavingFor
// or ChangingFor: another request about the Pod may use the spending.
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
		spent = spent || decision.Reason.Code == "" // another round finds the Pod let go
	}
	return contended(by), by, nil
}

// distinct returns the keys, each once: a budget named twice would be spent from twice.
func distinct(keys []client.ObjectKey) (out []client.ObjectKey) {
	for _, key := range keys {
		if !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// rounds is how often all budgets of a Pod are asked if asking takes longer than prompt: the first budget may count the
// Pod again by then.
const rounds = 3

// askEach asks the budgets in sequence, until a budget does not agree.
func (g *Guard[O]) askEach(ctx context.Context, keys []client.ObjectKey, request disruption.Request, dryRun bool) (decision disruption.Decision, by client.ObjectKey, err error) {
	for _, by = range keys {
		if decision, err = g.Ask(ctx, by, request, dryRun); err != nil || !decision.Admitted {
			break
		}
	}
	return decision, by, err
}
