// Package uniteddeployment is the controller of UnitedDeployments: the controller divides Pods among subsets, and keeps
// a workload for each subset.
//
// Pure functions decide: resolve parses the spec; decide divides the replicas with package subsets, and compares the
// workload of each subset with the wanted workload. A workload is written only if its revision, patch, replicas or
// partition differ: defaults, and changes of other fields by others, are ignored, so that two writers never overwrite
// each other's changes again and again. If only a number differs, a patch sets this number; if the revision or patch
// differs, a single request replaces the whole spec by the template's, without a read.
//
// With the type Adaptive, Pods that no Node can run are created again in later subsets. A subset with stuck Pods is
// closed for a while. With reserveUnschedulablePods, the Pods are kept, and later subsets get substitutes until these
// Pods run.
//
// Differences from OpenKruise: If a subset has several workloads, this controller keeps the workload with the most
// ready Pods. The last subset that can get the remaining Pods is never closed: pending Pods make an autoscaler add
// Nodes. Ready Pods of an old revision are never reserved. matchFields in the terms of a subset are respected. The
// status names the limits of each subset, with remedies. The scale subresource counts exactly the Pods that its
// selector selects.
package uniteddeployment
