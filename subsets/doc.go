// Package subsets answers "how many Pods in which subset (a zone, a node pool, a cluster), and which is this Pod's
// subset?" A subset is any part of a workload with a name, bounds and Pods.
//
// # How many
//
// Compile the user's subsets with [New] and divide the replicas with [Rules.Divide]. [Fill] selects the rule for the
// division: in order up to each maximum, by weight, or in fixed shares. [State] has the present number of Pods of a
// subset, and whether Pods of the subset can be scheduled. The [Division] says how many replicas have no place, and
// which limits apply, with the paths of the caller's fields.
//
// If pending Pods should move to other subsets, set Config.Stay to keep settled Pods in place, and close subsets with
// [Policy.IsStuck] and [Policy.Next]. If pending Pods should keep their place, set Config.Reserve to create
// substitutes in other subsets until the pending Pods run, and use [Policy.IsReserved] and [Proving].
//
// # To which
//
// A controller that creates Pods itself calls [Pick] with Division.Places. A webhook for Pods that others create calls
// [Policy.Take] with a [Book] from the status of an object, and stores the book before responding, by compare-and-swap
// (package ownercache/sharedstatus). For deletions the webhook calls [Policy.Release], and a controller counts the Pods
// with [Policy.Count]. The subset of a numbered Pod follows from its number: [PickNumbered]. A [Matcher] finds the
// subsets of existing Pods.
//
// # Which first
//
// [Rank] sorts Pods in the order of deletion, and computes deletion costs for Pods that others delete.
//
// # Compared with OpenKruise
//
// The results are the same as those of OpenKruise's WorkloadSpreads and UnitedDeployments, except for these
// corrections:
//
//   - A closed subset never gets more Pods than its maximum, and settled Pods of a subset never reduce another subset's
//     minimum.
//   - A subset that was closed and is on trial keeps its substitutes in other subsets until its new Pods have
//     settled. The substitutes are not deleted and created again.
//   - Free places are computed from the counted Pods, the awaited Pods and the present maximum, so a changed maximum
//     applies at once, and a deletion in a subset with too many Pods frees no place.
//   - A new Pod with the name of a Pod just deleted takes a place like any other Pod, and is not put into a closed
//     subset.
//   - If a stale cache still shows a deleted Pod, the Pod does not count as a new Pod of the same name.
//   - A Pod that is deleted before it was counted frees its place at once.
//   - A closed subset is closed for the Pods of every revision.
//   - A Pod counts as unschedulable from the time when the scheduler has reported so, not from its creation.
//   - Numbered Pods are assigned to subsets by position, so a start above 0 and reserved numbers cause no gaps.
//
// No subset exceeds its maximum as long as Pods are created and deleted within the times of a Policy. If a Pod is
// created later than CreatingFor after its admission, or a deletion is refused after Release, a subset may have a Pod
// too many until a Pod is deleted. If a subset without a maximum gets a maximum, the maximum applies from the next
// count on.
//
// All functions are pure and safe for concurrent use, and never modify their arguments. The clocks of counting
// controllers and deciding webhooks should agree to a few seconds.
package subsets
