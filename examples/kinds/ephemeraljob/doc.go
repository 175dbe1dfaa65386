// Package ephemeraljob is the reference controller for apps.kruise.io EphemeralJobs: ephemeral containers in existing
// Pods, a few Pods at a time.
//
// A loop keyed by job reads as a paragraph: observe, decide, act, report. resolve reads a spec, once for each spec, and
// decide decides a whole pass; both are pure, and package completion has the common rules of jobs. The Pods belong to
// somebody else. A container of the job has the job's UID in its environment, so the Pods themselves say where the job
// has been: after a lost answer or a crash the next process finds the containers there.
//
// # Parallelism
//
// A Pod is busy from the patch until all containers of the job have ended, reported or not. A late report never leads
// to more busy Pods than allowed. A container that cannot start keeps its place: condition JobWaiting names the
// obstacle, and no further Pod gets a container that nobody can remove.
//
// # The end
//
// A job is over when the containers have ended in all wanted Pods: succeeded if all have ended well, otherwise failed,
// with the numbers of both in condition JobFailed. A job for more Pods than match waits for more Pods, and says so. The
// deadline, if any, ends the wait. After the end the numbers stay: anybody may delete Pods.
//
// # What cannot be undone
//
// Kubernetes neither stops nor removes ephemeral containers. After a deadline or a deletion the containers go on until
// their programs end, or the Pods go. A deleted job names the Pods in an event before its finalizer goes.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each difference visible from outside.
package ephemeraljob
