// Package workloadspread is the controller and webhook for WorkloadSpreads, which decide in which subset (a group of
// Nodes) each new Pod of a workload runs, whoever creates the Pod.
//
// A webhook assigns a new Pod to the first subset that has a free place: choose takes the place, and inject changes the
// Pod. The place is stored in the status before the Pod is admitted, so that two webhooks never give out the same
// place. When a Pod is deleted, its place is freed: release. The subset of a numbered Pod depends only on its number.
//
// A pass of the controller counts the Pods: count confirms the places of Pods that exist, and frees the places of Pods
// that were not created. The pass also finds the subsets of Pods created before the WorkloadSpread, sets deletion
// costs, closes subsets in which Pods cannot be scheduled, and deletes these Pods. Package subsets has the rules, and
// resolve parses the spec.
//
// Differences from OpenKruise:
//
//   - If the API server calls the webhook again for a Pod whose annotation has a key, the Pod takes no second place. A
//     key copied from another Pod is ignored.
//   - A second injection changes nothing, and an empty node selector adds no requirement.
//   - A closed subset is closed for the Pods of every version.
//   - Several WorkloadSpreads may have the same target, if no Pod can match the filters of two of them. A filter
//     without selector matches all Pods.
//   - If a patch sets a new priority class, the Pod also gets the preemption policy of the class.
//   - Places confirmed by a count do not wait until the workload's controller has caught up.
package workloadspread
