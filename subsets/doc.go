// Package subsets answers "how many Pods in which subset (a zone, a node pool, a cluster), and to which does this Pod
// go?" A subset is any part of a workload with a name, bounds and Pods.
//
// # How many
//
// Compile the user's subsets with [New] and divide the replicas with [Rules.Divide]. [Fill] says how: in order up to
// each maximum, by weight, or in fixed shares. [State] says what each subset has now, and whether Pods can be
// scheduled there. The [Division] names the replicas left over and the limits, with the paths of the caller's fields.
//
// A kind that lets pending Pods move on keeps settled Pods in place (Config.Stay), and closes a subset by
// [Policy.IsStuck] and [Policy.Next]. A kind that lets pending Pods keep their place has substitutes elsewhere
// meanwhile (Config.Reserve), and asks [Policy.IsReserved] and [Proving].
//
// # To which
//
// A controller that creates Pods by itself asks [Pick] with Division.Places. A webhook for Pods created by others asks
// [Policy.Take] with a [Book] in the status of an object, and stores the book before its answer, by compare-and-swap
// (package ownercache/sharedstatus). [Policy.Release] is for deletions, and a controller counts with [Policy.Count].
// The subset of a numbered Pod follows from the number: [PickNumbered]. A [Matcher] finds the subsets of existing Pods.
//
// # Which first
//
// [Rank] puts Pods into the order of deletion, and computes deletion costs for Pods deleted by others.
//
// # Compared with OpenKruise
//
// The results are those of WorkloadSpreads and UnitedDeployments, except for mistakes:
//
//   - A closed subset never gets more Pods than its maximum, and no settled Pod costs another subset its minimum.
//   - A subset that was closed and is on trial keeps its substitutes until its new Pods have settled, instead of losing
//     and getting them back.
//   - Free places are computed from the counted and the awaited Pods and from today's maximum, so a lowered, raised or
//     scaled maximum counts at once, and a deletion in an overfull subset makes no room.
//   - A Pod with the name of a Pod just deleted takes a place like any Pod, and does not return to a closed subset.
//   - A late view of a Pod that is gone does not pass for a new Pod of the name.
//   - A Pod deleted before the first count gives its place back at once.
//   - A closed subset is closed for the Pods of every revision.
//   - A Pod counts as pending since the scheduler gave up, and not since its creation.
//   - Numbered Pods are placed by their position, so a start and reserved numbers are no gaps.
//
// Maximums are kept for Pods that come and go within the times of a Policy. A Pod created later than CreatingFor
// after its admission, or a deletion refused after Release, may make a subset a Pod too large until a Pod goes. A
// bound given to a subset without holds from the next count on.
//
// All functions are pure and safe for concurrent use, and never modify their arguments. The clocks of counting
// controllers and deciding webhooks should agree to a few seconds.
package subsets
