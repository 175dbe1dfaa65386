// Package podunavailablebudget counts the Pods of PodUnavailableBudgets. Webhooks, and controllers before they act, spend from the count: package
// budgets. It keeps no Pods, and deletes none.
//
// A pass counts the Pods that name the budget, has those name it that it is for and that name none, and writes the status: on the condition that nobody
// has spent from it meanwhile. A budget that was never counted lets nobody go.
//
// Unlike OpenKruise's, it takes over Pods whose budget is gone; protects from the first moment; knows how many Pods DaemonSets should have; and wants
// no more Pods in service than there should be, so that a workload which was scaled below minAvailable can go. A spec whose bounds make no sense came
// past admission: it protects nobody, and an event says so.
package podunavailablebudget
