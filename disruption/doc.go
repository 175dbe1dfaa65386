// Package disruption answers "may this Pod be taken out of service now?" for budgets from which several webhooks
// spend at once.
//
// A [Ledger] says how many Pods of a budget are in service ("serve"), how many must serve, and for which Pods a
// request to take the Pod out of service was admitted since the count. The ledger is part of the status of the
// budget's object. A controller counts, whenever Pods change:
//
//	count, err := disruption.Policy{}.Count(ledger, disruption.Census{
//		Generation: budget.Generation, Expected: &expected, Bounds: bounds, Path: "spec", Members: members,
//	}, now)
//
// The controller stores the ledger on condition that the object has not changed since:
//
//	err := c.Status().Patch(ctx, counted, client.MergeFromWithOptions(budget, client.MergeFromWithOptimisticLock{}))
//
// After a conflict the controller counts again. If it overwrote the status instead, an entry of a webhook would be
// lost, and requests for too many Pods could be admitted.
//
// A webhook decides whether to admit a request, and stores the ledger by compare-and-swap before answering the request
// (package disruption/guard):
//
//	ledger, decision := disruption.Policy{}.Decide(ledger, disruption.Request{Pod: pod, Generation: budget.Generation, Operation: disruption.Evict}, now)
//
// A Pod with an admitted request counts against the budget until the Pod is deleted, until the Pod has changed and
// serves again (see Member.Settled), or until the time in the Policy has passed. Until then no second request may spend
// the same share of the budget, although caches may be stale. A budget that was not counted yet admits no request. A
// request for a Pod that does not serve costs nothing, as with the eviction API (KEP-3017).
//
// The clocks of counting controllers and deciding webhooks should agree to a few seconds. If clocks differ, an entry
// expires too late, or expires before the Pod has gone out of service. If the difference is near Policy.LeavingFor or
// ChangingFor, requests for too many Pods may be admitted.
//
// A ledger identifies Pods by name, so all Pods of a ledger must be in the same namespace.
//
// To protect Pods owned by any kind of operator, the packages disruption and guard are enough. The caller defines the
// meaning of "serves", the Pods of the budget and the covered operations.
package disruption
