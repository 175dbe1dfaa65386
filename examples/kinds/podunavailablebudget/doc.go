// Package podunavailablebudget counts the Pods of PodUnavailableBudgets, which limit how many Pods are taken out of
// service. [Budgets] decides about requests to take Pods out of service, for the webhook, and for controllers before
// a change, with the rules of package disruption. The functions ledgerOf and store convert between the status and a
// disruption.Ledger, resolve parses the spec, [Serving] determines which Pods are in service, and the type finder
// finds the budgets of a Pod. The controller neither creates nor deletes Pods.
//
// A reconciliation counts the Pods with the budget's name in their annotations, and writes the name onto selected Pods
// that lack the name. The status is written only if no operation was counted against the budget since the count. A
// budget whose Pods were not counted yet admits no request.
//
// This controller differs from OpenKruise in four points. After the deletion of a budget, Pods that another budget
// selects stay protected. Pods are protected from their creation on. The controller knows how many Pods DaemonSets
// should have. A budget requires no more Pods in service than should exist, so Pods can be deleted after a user has
// scaled a workload below minAvailable. A budget with an invalid spec, which was stored without admission, protects
// no Pods, and an event reports the error.
package podunavailablebudget
