// Package ephemeraljob is the reference controller for apps.kruise.io EphemeralJobs, which add ephemeral containers to
// existing Pods, to a few Pods at a time.
//
// A reconcile of a job has four steps: observe, decide, act, report. The function resolve parses and validates each
// spec once, and the function decide decides what to do. Both functions are pure, and package completion contains the
// rules that all kinds of jobs share. The Pods have other owners. Each container that the job has added has the job's
// UID in its environment. So the Pods themselves show where the job has added containers, even if a response of the
// API server was lost or the controller has crashed.
//
// # Parallelism
//
// A Pod counts as busy from the patch that adds the containers until all containers of the job have ended, even if
// the Node has not reported the containers yet. So a delayed report never makes more Pods busy than the job allows. A
// Pod whose container cannot start is busy as well: the condition JobWaiting gives the reason, and no further Pod
// gets a container that would also wait and could never be removed.
//
// # The end
//
// A job is over when the containers have ended in all wanted Pods. The job has succeeded if all containers have ended
// successfully; otherwise it has failed, and the condition JobFailed contains the numbers of both outcomes. If fewer
// Pods match than the job wants, the job waits for more Pods, and a condition says so. A deadline, if one is set, ends
// the wait. After the end, the numbers in the status no longer change, because users may delete Pods.
//
// # What cannot be undone
//
// Kubernetes neither stops nor removes ephemeral containers. After a deadline or a deletion of the job, the containers
// run until their programs end or the Pods are deleted. When a job is deleted, an event names the Pods in which
// containers still run, and then the finalizer of the job is removed.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package ephemeraljob
