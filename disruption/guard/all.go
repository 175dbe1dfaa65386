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
	rounds := []bool{true, false} // dry runs first
	switch {
	case dryRun:
		rounds = rounds[:1]
	case len(keys) == 1:
		rounds = rounds[1:]
	}
	for _, dry := range rounds {
		for _, by = range keys {
			if decision, err = g.Ask(ctx, by, request, dry); err != nil || !decision.Admitted {
				return decision, by, err
			}
		}
	}
	return decision, by, nil
}
