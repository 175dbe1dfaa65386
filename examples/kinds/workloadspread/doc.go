// Package workloadspread is the controller and webhook for WorkloadSpreads, which decide in which subset (a group of
// Nodes) each new Pod of a workload runs, whoever creates the Pod.
//
// A webhook assigns a new Pod to the first subset that has a free place: choose takes the place, and inject changes the
// Pod. The place is stored in the status before the Pod is admitted, so that two webhooks never give out the same
// place. When a Pod is deleted, its place is freed: release. The subset of a numbered Pod depends only on its number.
//
// If a Pod is not created, its place is given to a later Pod. So a Pod whose creation takes too long must not use its
// place any more: hold runs after all mutating webhooks, and refuses a Pod whose place is too old. After hold, the
// creation takes at most a known time: for the remaining validating webhooks, quotas, and the write. A place that is
// young enough is not given away within this time, so neither a stale cache nor a concurrent count matters, and hold
// writes nothing.
//
// A pass of the controller counts the Pods: count confirms the places of created Pods, and frees the places of Pods
// that were not created. The pass also finds the subsets of Pods older than the WorkloadSpread, sets deletion costs,
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
//   - The review of an eviction frees no place, because a PodDisruptionBudget may refuse the eviction again and
//     again. The count after the eviction frees the place.
//   - A Pod of a new priority class gets the preemption policy of the class, too.
//   - Places confirmed by a count do not wait for the controller of the workload to catch up.
package workloadspread
