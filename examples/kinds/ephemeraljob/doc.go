// Package ephemeraljob is the reference controller for apps.kruise.io EphemeralJobs: ephemeral containers in existing
// Pods, a few Pods at a time.
//
// A reconcile of a job has four steps: observe, decide, act, report. resolve parses and validates each spec once, and
// decide plans a whole pass; both are pure, and package completion has the rules that all jobs share. The Pods belong
// to other owners. Each container of the job has the job's UID in its environment, so the Pods themselves show where
// the job has added containers: after a lost response or a crash the next process finds the containers.
//
// # Parallelism
//
// A Pod counts as busy from the patch until all containers of the job have ended, whether reported or not. So a delayed
// report never makes more Pods busy than allowed. A container that cannot start still counts: condition JobWaiting says
// why, and no other Pod gets a container that nobody could remove.
//
// # The end
//
// A job is over when the containers have ended in all wanted Pods: succeeded if all have ended successfully, otherwise
// failed, with the numbers of both in condition JobFailed. If fewer Pods match than the job wants, the job waits for
// more Pods, and says so. If there is a deadline, it ends the wait. After the end the numbers no longer change, because
// anybody may delete Pods.
//
// # What cannot be undone
//
// Kubernetes neither stops nor removes ephemeral containers. After a deadline or a deletion, the containers run until
// their programs end, or the Pods are deleted. When a job is deleted, an event names these Pods before its finalizer is
// removed.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package ephemeraljob
