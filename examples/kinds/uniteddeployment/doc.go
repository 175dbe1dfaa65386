// Package uniteddeployment is the controller of UnitedDeployments: the controller divides Pods among subsets, and keeps
// a workload for each subset.
//
// Pure functions decide. resolve reads the spec, decide divides the replicas, by package subsets, and compares the
// workload of each subset with the wanted workload. A workload is written if, and only if, its revision, patch, replicas
// or partition differ: defaults and foreign changes of other fields are no difference, so two writers never undo each
// other's work. A changed number is a patch of the number alone, and a changed revision or patch replaces the whole spec
// by the template's, in a single request without a read.
//
// With type Adaptive, Pods without a possible Node move on to later subsets. A subset with stuck Pods is closed for a
// while. With reserveUnschedulablePods, the Pods stay and have substitutes meanwhile.
//
// OpenKruise differs in some points. Of several workloads of a subset this controller keeps the workload with the most
// ready Pods. The last subset able to take the remaining Pods is never closed: pending Pods have an autoscaler of Nodes
// make room. Ready Pods of an old revision are never reserved. The terms matchFields of a subset count. Reports name, for
// each subset, the limits and remedies. The scale subresource counts exactly the Pods selected by its selector.
package uniteddeployment
