// Package podunavailablebudget counts the Pods of PodUnavailableBudgets. [Budgets] spends from the counted budgets, for
// the webhook and for controllers before they act: the package uses package disruption for this. ledgerOf and store
// convert between status and ledger, resolve parses the spec, Serving finds out which Pods are in service, and finder
// finds the budgets of a Pod. The controller neither creates nor deletes Pods.
//
// A pass counts the Pods with the budget's name in their annotations, and writes the name onto selected Pods without
// one. The pass writes the status on condition that nobody has spent from the budget since. A budget that was not
// counted yet admits no request.
//
// This controller differs from OpenKruise in four points. It also protects Pods whose earlier budget was deleted. It
// protects Pods from their creation on, and knows how many Pods DaemonSets should have. It requires no more Pods in
// service than should exist, so Pods can be deleted after a user has scaled a workload below minAvailable. If a spec is
// invalid because it was stored without admission, the budget protects no Pods, and an event says so.
package podunavailablebudget
