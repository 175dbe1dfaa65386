// Package disruption answers "may this Pod be taken out of service now?" for budgets from which several webhooks spend
// at once.
//
// A [Ledger] says how many Pods of a budget serve, how many must serve, and which Pods were let go since the count. The
// ledger is part of the status of the budget's object. A controller counts, whenever Pods change:
//
//	count, err := disruption.Policy{}.Count(ledger, disruption.Census{
//		Generation: budget.Generation, Expected: &expected, Bounds: bounds, Path: "spec", Members: members,
//	}, now)
//
// and stores the ledger on condition of an unchanged object:
//
//	err := c.Status().Patch(ctx, counted, client.MergeFromWithOptions(budget, client.MergeFromWithOptimisticLock{}))
//
// A status written over a webhook's spending lets a Pod too many go: after a conflict count again.
//
// A webhook decides about a request, and stores the ledger before its answer, by compare-and-swap (package
// disruption/guard):
//
//	ledger, decision := disruption.Policy{}.Decide(ledger, disruption.Request{Pod: pod, Generation: budget.Generation, Operation: disruption.Evict}, now)
//
// A Pod let go counts as away until the Pod is gone, until the Pod has changed and serves again (see Member.Settled),
// or until the Pod had the time to become unready. Caches are late, and nobody may spend the same share twice in
// between. An uncounted budget lets nobody go. A Pod that does not serve is let go at no cost, as with the eviction API
// (KEP-3017).
//
// The clocks of counting controllers and deciding webhooks should agree to a few seconds. A difference makes a Pod
// count again earlier, when the Pod may still be about to go, or later. A difference near Policy.LeavingFor or
// ChangingFor may let a Pod too many go.
//
// A ledger knows Pods by their names, so a ledger is for the Pods of a single namespace.
//
// Protection of Pods owned by any kind of operator needs only the packages disruption and guard. The caller defines the
// meaning of "serves", the Pods of the budget and the covered operations.
package disruption
