// Package workloadspread is the controller and webhook for WorkloadSpreads, which decide in which subset (a group of
// Nodes) each new Pod of a workload runs, whoever creates the Pod.
//
// A webhook assigns a new Pod to the first subset that has a free place: choose takes the place, and inject changes the
// Pod. The place is stored in the status before the Pod is admitted, so that two webhooks never give out the same
// place. When a Pod is deleted, its place is freed: release. The subset of a numbered Pod depends only on its number.
//
// The place of a Pod that never comes is given away, so a Pod that comes late must not use the place any more. hold is
// asked after all mutating webhooks, and refuses a Pod whose place is too old. What is left of a request then takes a
// known time at most: the other validating webhooks, quotas, and the write. A place young enough cannot be given away
// within this time, so neither a late cache nor a concurrent count matters, and hold writes nothing.
//
// A pass of the controller counts the Pods: count confirms the places of Pods that have come, and frees the places of
// Pods that have not. The pass also finds the subsets of Pods older than the WorkloadSpread, sets deletion costs,
// closes subsets where Pods cannot be scheduled, and deletes these Pods. Package subsets has the rules, and resolve
// reads the spec.
//
// Differences from OpenKruise:
//
//   - A request that asks again for its Pod, with the key in the annotation, takes no second place. A key copied from
//     another Pod counts for nothing.
//   - Injecting twice changes nothing, and an empty node selector demands nothing.
//   - A subset that is closed is closed for the Pods of every version.
//   - Several WorkloadSpreads may have a target, if no Pod can match two of their filters. A filter without selector
//     matches all Pods.
//   - An eviction gives back no place: a PodDisruptionBudget may refuse the eviction on and on. The count after the eviction
//     frees the place.
//   - A Pod of a new priority class gets the preemption policy of the class, too.
//   - Places confirmed by a count do not wait for the controller of the workload to catch up.
package workloadspread
