// Package budgets maps PodUnavailableBudgets to package disruption. [LedgerOf] and [Store] map the status to a ledger.
// [Bounds] returns how many Pods have to serve, [Serving] finds the serving Pods, [Workloads] knows how many Pods
// should exist, and [Finder] finds the budget of a Pod. The controller of PodUnavailableBudgets counts with these
// parts.
//
// [Budgets] combines the parts for callers about to take a Pod out of service: the webhook for Pods, and controllers
// before they act.
package budgets
