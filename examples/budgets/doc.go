// Package budgets answers: what is a PodUnavailableBudget to package disruption? [LedgerOf] and [Store] are its status as a ledger, [Bounds] how many
// Pods have to serve, [Serving] which Pods do, [Workloads] how many there should be, and [Finder] which budget a Pod has. The controller of
// PodUnavailableBudgets counts with them.
//
// [Budgets] puts them together for whoever wants to take a Pod out of service: the webhook for Pods, and controllers before they act.
package budgets
