// Package chaos answers "does my controller keep its promises when everything around it goes wrong, and if not, what is
// the shortest story of how it broke one?".
//
// [Run] plays schedules, each drawn from a seed. In a schedule the controllers run on the API server in memory of
// package faultapi, with their own wiring: [Subject.Setup] is the function that adds them to a manager in the real
// program. Everything that happens is a step, and the seed decides which comes next:
//
//   - A reconcile that is due begins, or one API call of a running one is made. The call may be refused with a server
//     error, throttling, a conflict or, if it writes, as forbidden or invalid, or be carried out with its answer lost.
//   - A cache, or a watch that a runnable has opened itself, shows the next events of one resource, each on its own; or
//     a watch breaks, and a new list shows what is left of what happened meanwhile.
//   - The process dies, also in the middle of a call, and its successor starts with caches that may be older.
//   - Scheduler and kubelet do something for one Pod: start, restart, report, crash, evict or terminate.
//   - Users, and whoever else is outside, do something: [Subject.Users].
//   - Everything settles for a while, without faults and without much time passing: what comes next meets budgets at
//     their edge.
//   - Time passes. It moves in no other way, so nothing depends on how fast the machine is.
//
// Policies that last, such as quotas and webhooks, are the subject's: [Subject.Denies] is asked about each write, also
// when faults have stopped, and Users and Settle may lift what it refuses.
//
// Invariants are judged as things happen: [Subject.Wrote] sees every write of the controllers with the state before and
// after it, [Subject.Check] the state after every step. In the end faults stop, [Subject.Settle] makes the last wish
// one that can be fulfilled, a few calls fail once more, so that whoever relies on a later event to try again is found
// out, everything comes to rest, and [Subject.Converged] says what must hold then. Being busy for ever, writing without
// need, changing an object of the cache, and trying a write that a policy refuses more than 11 times within 10 seconds
// while users do nothing, are violations without anybody asking. Back-off must begin as in the real program, as that of
// controller-runtime's default queue does, and [Plan.Quiet] be longer than where it ends.
//
// # How to write a rule about a budget
//
// "At least 9 of 10 Pods are available" is no rule that a controller can keep: Pods crash, Nodes drain, and a cache
// shows what was true a moment ago. What it can keep is that by its own writes it never takes more than the budget
// allows of what it had seen. Such a rule has three parts:
//
//  1. What it saw. [Subject.Looks] is called before each of a reconcile's calls. Until the first write, copy from
//     Task.Process.Cache what the decision depends on into Task.View: the owner's spec, and which Pods serve. After the
//     first write copy no more, because the decision is made. A Pod that is ready, but in the middle of an update, does
//     not serve.
//  2. What it took. [Subject.Wrote] sees each write with the Pod before and after it. A write takes a Pod if the Pod
//     served in that view and was deleted, marked for deletion, or had its readiness gate closed. Keep these by UID, so
//     that a Pod that is patched twice counts once. Failures, evictions and restarts are no writes of the controller,
//     and never count.
//  3. The comparison. Fail when serving Pods in the view, less those taken, fall below replicas less maxUnavailable.
//     Take replicas and maxUnavailable from the view as well: the user may have changed them since.
//
// For limits on how many Pods there may be, such as surge, do without the view: count what the server has
// (faultapi.All) when a Pod is created, because creating twice from an old cache is the very mistake to find.
// TestFaults in examples/embed/fleet has a rule of each sort. Plant a mistake (count one Pod more, read the budget
// before the barrier) and see the rule fail before you trust it.
//
// # Failures
//
// A schedule depends on its seed alone, as long as the controllers do: [Replay] tests that. What stands against it is
// the order of a map, a random number, and goroutines of a runnable that race for who is seen first; these had better
// fill an inbox that is emptied as a whole than hand over one thing at a time.
//
// A schedule that fails is played again without most of its steps and faults for as long as it breaks the same rule;
// what is left is printed step by step, with the command that plays it.
//
// # Settings
//
// The environment says what [Run] plays:
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
// after it has lost its lease.
package chaos
