// Package uniteddeployment is the controller of UnitedDeployments. A UnitedDeployment divides Pods among subsets, and
// has a workload for each subset.
//
// Pure functions decide: resolve parses the spec, and decide divides the replicas with package subsets and compares
// the existing workload of each subset with the wanted workload. A workload is written only if its revision, patch,
// replicas or partition differ. Defaults, and other clients' changes of other fields, are ignored, so that two
// clients do not overwrite each other's changes again and again. If only a number differs, a patch sets this number.
// If the revision or the patch differs, a single request replaces the whole spec, without reading the workload first.
//
// With the type Adaptive, Pods that no Node can run are recreated in later subsets. A subset with such Pods is closed
// for a while: the subset gets no further Pods. With reserveUnschedulablePods, such Pods are kept, and get
// substitutes in later subsets until the Pods run.
//
// Differences from OpenKruise: If a subset has several workloads, this controller keeps the workload with the most
// ready Pods. The last subset that can get the remaining Pods is never closed, because pending Pods make an
// autoscaler add Nodes. Ready Pods of an old revision never count as reserved, that is, as unschedulable and kept.
// matchFields in the Node terms of a subset are respected. The status names the limits of each subset, with remedies.
// The scale subresource counts exactly the Pods that its selector selects.
package uniteddeployment
