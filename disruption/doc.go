// Package disruption answers "may this Pod be taken out of service now?" for budgets that several webhooks spend from at once.
//
// A [Ledger] says how many Pods of a budget serve, how many have to, and which Pods were let go since they were counted. It stands in the
// status of the budget's object. A controller counts, whenever Pods change:
//
//	need, err := bounds.Need("spec", expected)
//	ledger, stayed, wait := disruption.Policy{}.Count(ledger, disruption.Census{Expected: expected, Need: need, Members: members}, now)
//
// and stores the ledger on the condition that nobody else has changed the object since:
//
//	err := c.Status().Patch(ctx, counted, client.MergeFromWithOptions(budget, client.MergeFromWithOptimisticLock{}))
//
// A status that is written over what a webhook has spent meanwhile lets one too many go: after a conflict count again. Fill in Census.NeededSince too
// where a budget may come to need Pods of which it needed none.
//
// A webhook decides about one request, and stores the ledger before it answers, by compare-and-swap (package disruption/guard):
//
//	ledger, decision := disruption.Policy{}.Decide(ledger, disruption.Request{Pod: pod, Operation: disruption.Evict}, now)
//
// A Pod that was let go counts as away until it is gone, or until it had the time to become unready: caches are late, and nobody may spend
// in between what was spent already. A budget that was never counted lets nobody go. A Pod that does not serve is let go for
// nothing, as with the eviction API (KEP-3017).
//
// The clocks of those who count and those who decide should agree to a few seconds. A difference makes a Pod count again that much earlier, when it
// may still be about to go, or later; what comes near to Policy.LeavingFor or ChangingFor may let one too many go.
//
// A ledger knows Pods by their names, and so is for those of one namespace.
//
// Who protects Pods that an operator of another kind owns needs no more than this package and guard; what "serves" means, whom the
// budget is for and which operations it covers are the caller's to say.
package disruption
