package guard

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
)

// AskAll is Ask for a Pod that has several budgets, each named once: it is let go if all of them agree. by is the budget that refuses, or the last
// of those that agree. All are asked before one is spent from. Where somebody else spends from one of them in that moment, what this request has
// spent from others stays spent for Policy.LeavingFor or ChangingFor: another request about the Pod may count on it.
func (g *Guard[O]) AskAll(ctx context.Context, keys []client.ObjectKey, request disruption.Request, dryRun bool) (decision disruption.Decision, by client.ObjectKey, err error) {
	if len(keys) == 0 {
		return decision, by, errors.New("guard: no budget is named")
	}
	if len(keys) == 1 {
		decision, err = g.Ask(ctx, keys[0], request, dryRun)
		return decision, keys[0], err
	}
	if decision, by, err = g.askEach(ctx, keys, request, true); dryRun || err != nil || !decision.Admitted {
		return decision, by, err
	}
	for range rounds {
		began := g.config.Clock.Now()
		if decision, by, err = g.askEach(ctx, keys, request, false); err != nil || !decision.Admitted || g.config.Clock.Since(began) < prompt {
			return decision, by, err
		}
	}
	return contended(by), by, nil
}

// rounds is how often all budgets of a Pod are asked where that takes longer than prompt: the first of them may count the Pod again by then.
const rounds = 3

// askEach asks one budget after the other, until one does not agree.
func (g *Guard[O]) askEach(ctx context.Context, keys []client.ObjectKey, request disruption.Request, dryRun bool) (decision disruption.Decision, by client.ObjectKey, err error) {
	for _, by = range keys {
		if decision, err = g.Ask(ctx, by, request, dryRun); err != nil || !decision.Admitted {
			break
		}
	}
	return decision, by, err
}
