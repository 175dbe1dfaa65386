// Package uniteddeployment is the controller of UnitedDeployments. A UnitedDeployment divides Pods among subsets, and
// has a workload for each subset.
//
// Pure functions decide: resolve parses the spec, and decide divides the replicas with package subsets and compares the
// workload of each subset with the workload as it should be. A workload is written only if its revision, patch,
// replicas or partition differ. Defaults, and changes of other fields by others, are ignored, so that two writers do
// not overwrite each other's changes again and again. If only a number differs, a patch sets this number. If the
// revision or the patch differs, a single request replaces the whole spec, without reading the workload first.
//
// With the type Adaptive, Pods that no Node can run are recreated in later subsets. A subset with such Pods is closed
// for a while. With reserveUnschedulablePods, such Pods are kept, and later subsets have substitutes until these Pods
// run.
//
// Differences from OpenKruise: If a subset has several workloads, this controller keeps the workload with the most
// ready Pods. The last subset that can get the remaining Pods is never closed, because pending Pods make an autoscaler
// add Nodes. Ready Pods of an old revision are never reserved. matchFields in the Node terms of a subset are respected.
// The status names the limits of each subset, with remedies. The scale subresource counts exactly the Pods that its
// selector selects.
package uniteddeployment
