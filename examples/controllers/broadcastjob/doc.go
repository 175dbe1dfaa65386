// Package broadcastjob is the reference controller for apps.kruise.io BroadcastJobs: a Pod that ends, on every Node that fits.
//
// One loop keyed by job reads as one paragraph: observe, decide, act, report. Package broadcastjobs decides. Pods are found by their controller
// reference, of whatever version, and told by their Node.
//
// # The end
//
// That a job is over is written down before anything is done about it. Only then are the Pods ended that still run, those among them whose
// containers restart too often, and their number goes from active to failed as they go. So a process that dies at any point goes on from
// the status. What ended well stays, until the job is deleted.
//
// # Failures that pause
//
// With the failure policy Pause the job is paused when more Pods have failed than its status counts. Condition Paused says so, with the
// generation of the job: it lasts until the spec changes or no failed Pod is left. What has failed until then is not held against the job
// again.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists each difference
// that can be seen from outside.
//
// RBAC: see examples/config/rbac. Pods (all verbs but update), events, broadcastjobs with status; nodes read.
package broadcastjob
