// Package chaos answers "does my controller keep its guarantees when everything around the controller fails, and if
// not, which shortest schedule breaks a guarantee?".
//
// [Run] plays schedules. A schedule is a random sequence of steps, and a seed determines all random choices. In a
// schedule the controllers run on the in-memory API server of package faultapi, wired as in the real program:
// [Subject.Setup] is the function that adds the controllers to a manager in the real program. Each event is a step,
// and the seed chooses the next step:
//
//   - A reconcile that is due begins, or a running reconcile makes an API call. The call may fail with a server error,
//     throttling, a conflict or, for a write, as forbidden or invalid; or the call is carried out but its response is
//     lost.
//   - A cache, or a watch opened by a runnable, receives the next events of a resource, one by one. Or a watch breaks,
//     and a new list shows the result of the missed events.
//   - The process dies, possibly in the middle of a call, and a new process starts with caches that may be older.
//   - Scheduler and kubelet do something for a Pod: start, restart, report, crash, evict or terminate.
//   - Users and other clients change objects: [Subject.Users].
//   - All pending work is done for a while, without faults and in little simulated time, so that the next step comes
//     just after the controllers have used up their budgets.
//   - Time passes. No other step advances the clock, so nothing depends on the speed of the machine.
//
// The [Subject] consists of the controllers under test and their rules. Policies that refuse writes for a longer
// time, such as quotas and webhooks, are also part of the Subject: Run calls [Subject.Denies] for each write, even
// after faults have stopped. Users and Settle may end a refusal.
//
// Run checks invariants at every step: Run calls [Subject.Wrote] for every write of the controllers with the state
// before and after, and [Subject.Check] after every step. In the end faults stop, and [Subject.Settle] changes
// objects so that the last requests of users can be fulfilled. A few calls fail once more, so that Run finds
// controllers that rely on a later event for a retry. All pending work is done, and [Subject.Converged] checks the
// final state. Run itself reports some violations without a rule of the Subject: endless work, requests when nothing
// has changed, the same write sent twice in a reconcile, and a modified object in the cache. Another violation is a
// write refused by a policy that the controller tries more than 11 times within 10 seconds while users change
// nothing. So backoff should begin as in controller-runtime's default queue, and [Plan.Quiet] must be longer than the
// longest backoff.
//
// # How to write a rule about a budget
//
// A controller cannot guarantee that "at least 9 of 10 Pods are available": Pods crash, Nodes are drained, and caches
// are stale. A controller can guarantee a weaker rule: its own writes never take more Pods out of service than the
// budget allows, according to the state of the cache at the time of the decision. Such a rule has three parts:
//
//  1. The view. [Subject.Looks] is called before each of a reconcile's calls. Before the first write of the
//     reconcile, copy the data for the decision from Task.Process.Cache into Task.View: the owner's spec, and the
//     Pods in service. After the first write, copy no further data, because the decision has been made. A live read
//     that precedes a write counts like a write, for example the read of a StorageClass before a claim is resized. A
//     Pod that is ready, but in the middle of an update, does not count as in service.
//  2. The Pods taken out of service. [Subject.Wrote] sees each write with the Pod before and after. A write takes a Pod
//     out of service if the Pod was in service in the view and the write deletes the Pod, marks the Pod for deletion,
//     or closes its readiness gate. Record these Pods by UID, so that a Pod patched twice counts once. Crashes,
//     evictions and restarts are not writes of the controller, and never count.
//  3. The comparison. Call Failf when the number of Pods in service in the view, minus the Pods taken out of service,
//     is below replicas minus maxUnavailable. Take replicas and maxUnavailable from the view as well: users may have
//     changed both values since then.
//
// For limits on the number of Pods, such as surge, use no view: count the server's Pods (faultapi.All) when a Pod is
// created, because creating Pods twice from a stale cache is exactly the mistake to find. TestFaults in
// examples/embed/fleet has a rule of each kind. Before you rely on a rule, add a mistake to the controller (for
// example, count one Pod too many) and see that the rule fails.
//
// # Failures
//
// A schedule depends only on its seed, provided that the controllers are deterministic: [Replay] tests this. Three
// things make a controller nondeterministic: the iteration order of a map, a random number, and goroutines of a
// runnable whose effect depends on which goroutine runs first. Such goroutines should append their results to a
// shared list, and the receiver should take the whole list at once.
//
// Run repeats a failing schedule without most of its steps and faults, as long as the schedule still breaks the same
// rule. Run prints the remaining schedule step by step, with the command to play it.
//
// # Settings
//
// Environment variables control [Run]:
//
//	CHAOS_SEEDS       number of schedules
//	CHAOS_FIRST_SEED  seed of the first schedule; 1 if not set
//	CHAOS_STEPS       number of steps before the faults stop
//	CHAOS_PLAYS       largest number of repetitions to make a failing schedule shorter
//	CHAOS_FAILURES    number of failing schedules after which no schedule begins; 3 if not set
//	CHAOS_SCRIPT      steps to play, in a single schedule with the first seed, such as "1-12,15c,40"; c: no faults
//
// # What is not played
//
// A schedule does not simulate admission, a request that arrives after its sender has died and a new process has
// started, or a leader that continues for a while after losing its lease.
package chaos
