// Package chaos answers "does my controller keep its promises when everything around it goes wrong, and if not, what is
// the shortest story of how it broke one?".
//
// [Run] plays schedules, each drawn from a seed. In a schedule the controllers run on the in-memory API server of
// package faultapi, with their own wiring: [Subject.Setup] is the function that adds the controllers to a manager in
// the real program. Every event is a step, and the seed chooses the next step:
//
//   - A due reconcile begins, or a running reconcile makes an API call. The call may be refused with a server error,
//     throttling, a conflict or, for a write, as forbidden or invalid, or be carried out with its answer lost.
//   - A cache, or a watch opened by a runnable, shows the next events of a resource, event by event. Or a watch breaks,
//     and a new list shows the remains of the events meanwhile.
//   - The process dies, also in the middle of a call, and its successor starts with caches that may be older.
//   - Scheduler and kubelet do something for a Pod: start, restart, report, crash, evict or terminate.
//   - Users, and other clients outside, do something: [Subject.Users].
//   - Everything settles for a while, without faults and without much time passing, so that the next step meets budgets
//     at their edge.
//   - Time passes. No other step moves time, so nothing depends on the speed of the machine.
//
// Lasting policies, such as quotas and webhooks, belong to the subject: Run asks [Subject.Denies] about each write,
// also after faults have stopped, and Users and Settle may lift a refusal.
//
// Run judges invariants at every step: [Subject.Wrote] sees every write of the controllers with the state before and
// after, [Subject.Check] the state after every step. In the end faults stop, and [Subject.Settle] makes the last wish
// possible to fulfil. A few calls fail once more, so that Run finds controllers relying on a later event for another
// try. Everything comes to rest, and [Subject.Converged] checks the final state. Some violations need no rule of the
// subject: being busy for ever, asking anything at rest, sending the same write twice in a pass, changing an object of
// the cache, and trying a write refused by a policy more than 11 times within 10 seconds while users do nothing.
// Backoff must begin as in the real program, like the backoff of controller-runtime's default queue, and [Plan.Quiet]
// must be longer than the longest backoff.
//
// # How to write a rule about a budget
//
// "At least 9 of 10 Pods are available" is no rule that a controller can keep: Pods crash, Nodes drain, and a cache
// shows the past. A controller can keep a weaker rule: its own writes never take more Pods than the budget allows, as
// seen by the controller. Such a rule has three parts:
//
//  1. The view. [Subject.Looks] is called before each of a reconcile's calls. Until the pass first acts, copy the basis
//     of the decision from Task.Process.Cache into Task.View: the owner's spec, and the serving Pods. Afterwards copy no
//     more, because the decision is made. A write is an act, and so is a live read for a write, such as the read of a
//     StorageClass before a claim grows. A Pod that is ready, but in the middle of an update, does not
//     serve.
//  2. The taken Pods. [Subject.Wrote] sees each write with the Pod before and after. A write takes a Pod if the Pod
//     served in the view and was deleted, marked for deletion, or had its readiness gate closed. Keep taken Pods by
//     UID, so that a Pod patched twice counts once. Failures, evictions and restarts are no writes of the controller,
//     and never count.
//  3. The comparison. Fail when serving Pods in the view, less the taken Pods, fall below replicas less maxUnavailable.
//     Take replicas and maxUnavailable from the view as well: the user may have changed both since.
//
// For limits on the number of Pods, such as surge, do without the view: count the server's Pods (faultapi.All) when a
// Pod is created, because creating twice from an old cache is the very mistake to find. TestFaults in
// examples/embed/fleet has a rule of each sort. Plant a mistake (count a Pod too many, read the budget before the
// barrier) and see the rule fail before you trust it.
//
// # Failures
//
// A schedule depends on its seed alone, as long as the controllers do: [Replay] tests the controllers. Three things
// break the dependence: the order of a map, a random number, and goroutines of a runnable racing for the first place.
// Such goroutines had better fill an inbox emptied as a whole than hand over single items.
//
// Run plays a failing schedule again without most of its steps and faults for as long as the schedule breaks the same
// rule. Run prints the remaining schedule step by step, with the command to play it.
//
// # Settings
//
// The environment controls [Run]:
//
//	CHAOS_SEEDS       how many schedules
//	CHAOS_FIRST_SEED  the seed of the first, 1 if not set
//	CHAOS_STEPS       how many steps come before faults stop
//	CHAOS_PLAYS       how often a failing schedule may be played to make it shorter
//	CHAOS_FAILURES    after how many failing schedules no more are begun, 3 if not set
//	CHAOS_SCRIPT      the steps to play of the first seed alone, such as "1-12,15c,40"; c stands for without faults
//
// # What is not played
//
// Admission, a request that arrives after its sender has died and been replaced, and a leader that goes on for a while
// after losing its lease.
package chaos
