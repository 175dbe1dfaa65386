// Package rehearsal answers "what would these controllers do from the present state, if no user changed anything?".
//
// A [Rehearsal] runs the unchanged controllers of a program on a faultapi.Server that contains the objects of a
// cluster. All steps run one after the other: a due reconcile runs to its end, the cache receives the events of the
// server, and scheduler and kubelets take their next step. When no work is due, the simulated clock advances to the
// end of the next wait. The rehearsal is over when the controllers make no more writes, or after too many reconciles.
// No real time passes, except a moment for the start of the controllers.
//
// [Rehearsal.Writes] returns the writes of the controllers, in order. The package imports neither testing nor
// testing/synctest, so a program can show its users what will happen. Package chaos plays schedules with faults.
//
// Controllers must take their time from [Clock], and must not continue a reconcile in other goroutines. Concurrent
// requests of one reconcile may come in any order.
package rehearsal
