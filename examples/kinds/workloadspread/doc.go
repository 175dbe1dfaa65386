// Package workloadspread contains the controller and the webhooks for WorkloadSpreads. A WorkloadSpread decides in
// which subset (a group of Nodes) each new Pod of a workload runs; any client may create the Pod.
//
// A subset with a maximum has as many places as its maximum; a place is the right to create one Pod in the subset. A
// webhook assigns a new Pod to the first subset that has a free place: the function choose takes the place, and the
// function inject changes the Pod. The place is recorded in the status before the Pod is admitted, so that two
// webhooks never use the same place for two Pods. When a Pod is deleted, the function release frees its place. The
// subset of a StatefulSet's Pod depends only on the ordinal, so no place is recorded.
//
// If a Pod is not created, its place is used for a later Pod. So a Pod whose creation takes too long must not use its
// place any more: the handler hold runs after all mutating webhooks, and refuses a Pod whose place is too old. After
// the review by hold, the creation takes at most a known time: for the remaining validating webhooks, quotas, and the
// write. A place that hold accepts is not given to another Pod within this time. So neither a stale cache nor a
// concurrent count matters, and hold writes nothing.
//
// A reconciliation of the controller counts the Pods: the function count confirms the places of created Pods, and
// frees the places of Pods that were not created. The reconciliation also chooses subsets for the Pods that are older
// than the WorkloadSpread, sets deletion costs, and deletes Pods that cannot be scheduled. The subset of such Pods is
// closed for a while: the subset gets no further Pods. Package subsets contains the rules, and the function resolve
// parses the spec.
//
// Differences from OpenKruise:
//
//   - If a webhook is called again for the same Pod, the annotation of the Pod contains the key of its place, and no
//     second place is taken. A key that was copied from another Pod is ignored.
//   - A second injection changes nothing, and an empty node selector requires nothing.
//   - A closed subset is closed for the Pods of every version.
//   - Several WorkloadSpreads may have the same target if no Pod can match the filters of two of them. A filter without
//     a selector matches all Pods.
//   - The review of an eviction frees no place, because a PodDisruptionBudget may refuse the eviction again and again.
//     The count after the eviction frees the place.
//   - A Pod that gets another priority class also gets the preemption policy of this class.
//   - The next Pods need not wait until the controller of the workload has noticed the places that a count has
//     confirmed.
package workloadspread
