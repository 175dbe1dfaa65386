// Package podunavailablebudget counts the Pods of PodUnavailableBudgets. [Budgets] spends from the count, for the
// webhook and for controllers before they act: the room maps a budget to package disruption. ledgerOf and store map the
// status to a ledger, resolve reads the spec, Serving finds the serving Pods, and finder finds the budgets of a Pod.
// The controller keeps no Pods and deletes none.
//
// A pass counts the Pods that carry the budget's name, and puts the name on selected Pods without a budget. The pass
// writes the status on condition that nobody has spent from the budget meanwhile. A budget without a count lets no Pod
// go.
//
// OpenKruise differs in four points. This controller takes over Pods whose budget is gone. This controller protects
// Pods from the first moment, and knows how many Pods DaemonSets should have. This controller wants no more Pods in
// service than should exist, so a workload can go after a user scaled the workload below minAvailable. A spec without
// sense has bypassed admission: such a budget protects no Pods, and an event says so.
package podunavailablebudget
