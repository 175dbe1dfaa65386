package guard

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
)

// AskAll is Ask for a Pod that has several budgets, each named once: it is let go if all of them agree. by is the budget that refuses, or the last
// of those that agree. No budget spends anything unless the others would agree, too; where one of them was spent from by somebody else in that
// moment, the others get back what this request has spent.
func (g *Guard[O]) AskAll(ctx context.Context, keys []client.ObjectKey, request disruption.Request, dryRun bool) (decision disruption.Decision, by client.ObjectKey, err error) {
	if len(keys) == 0 {
		return decision, by, fmt.Errorf("guard: no budget is named")
	}
	if len(keys) > 1 || dryRun {
		for _, by = range keys {
			if decision, err = g.Ask(ctx, by, request, true); err != nil || !decision.Admitted {
				return decision, by, err
			}
		}
	}
	if dryRun {
		return decision, by, nil
	}
	var spent []client.ObjectKey
	for _, by = range keys {
		if decision, err = g.Ask(ctx, by, request, false); err != nil || !decision.Admitted {
			g.takeBack(ctx, spent, request)
			return decision, by, err
		}
		if decision.Changed && decision.Reason.Code == "" {
			spent = append(spent, by)
		}
	}
	return decision, by, nil
}

// takeBackTime bounds how long it takes to give back, for which the caller does not wait longer.
const takeBackTime = time.Second

// takeBack undoes what was spent for a request that does not happen. Where that fails, Policy.LeavingFor or ChangingFor ends it.
func (g *Guard[O]) takeBack(ctx context.Context, from []client.ObjectKey, request disruption.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	for _, key := range from {
		_, _ = g.change(ctx, key, func(ledger disruption.Ledger, _ time.Time) (disruption.Ledger, disruption.Decision) {
			after, changed := ledger.TakeBack(request)
			return after, disruption.Decision{Admitted: true, Changed: changed}
		}, false)
	}
}
