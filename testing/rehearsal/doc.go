// Package rehearsal answers "what would these controllers do from here, if nobody else did anything?".
//
// A [Rehearsal] runs the very controllers of a program on a faultapi.Server that has been filled with the objects of a
// cluster. Everything happens in turn: a reconcile that is due runs to its end, the cache receives the events of the
// server, scheduler and kubelets take their next step, and when nothing is due the simulated clock advances to the next
// wait's end. The rehearsal is over when nothing happens any more, or after too many reconciles. No real time passes,
// except a moment for the start of the controllers.
//
// [Rehearsal.Writes] are the writes of the controllers, in their order. The package imports neither testing nor
// testing/synctest, so a program can show its users what will happen. Package chaos plays schedules with faults.
//
// Controllers must take their time from [Clock], and must not continue a reconcile in goroutines of their own. Requests
// that a reconcile makes side by side may come in any order.
package rehearsal
