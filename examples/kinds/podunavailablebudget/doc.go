// Package podunavailablebudget counts the Pods of PodUnavailableBudgets, which limit how many Pods are taken out of
// service. [Budgets] decides about requests for the webhook, and for controllers before they act, with the rules of
// package disruption. The functions ledgerOf and store convert between the status and a ledger, resolve parses the
// spec, [Serving] determines which Pods are in service, and the type finder finds the budgets of a Pod. The controller
// neither creates nor deletes Pods.
//
// A reconciliation counts the Pods with the budget's name in their annotations, and writes the name onto selected Pods
// that lack the name. The status is written only if no operation was counted against the budget since the count. A
// budget whose Pods were not counted yet admits no request.
//
// This controller differs from OpenKruise in four points. It also protects the remaining Pods of a deleted budget, if
// another budget selects the Pods. Pods are protected from their creation on. The controller knows how many Pods
// DaemonSets should have. It requires no more Pods in service than should exist, so Pods can be deleted after a user
// has scaled a workload below minAvailable. If a spec is invalid because no admission has checked it, the budget
// protects no Pods, and an event says so.
package podunavailablebudget
