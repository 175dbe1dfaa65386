// Package broadcastjob is the reference controller for apps.kruise.io BroadcastJobs: a Pod that ends, on every fitting
// Node.
//
// A reconcile has four steps: observe, decide, act, report. resolve parses and validates each spec once, and decide
// plans a whole pass; both are pure, and package completion has the rules that all jobs share. The controller finds
// Pods by their controller reference, of any API version, and identifies each Pod by its Node.
//
// # The end
//
// The controller records the end of a job in the status before acting on the end. Only then does the controller delete
// running Pods, including Pods whose containers restart too often. When such Pods are deleted, their number moves from
// active to failed in the status. So after a crash at any point the next process continues from the status. Succeeded
// Pods stay until the job is deleted.
//
// # Failures that pause
//
// With the failure policy Pause, the job is paused when more Pods have failed than its status counts. Condition Paused
// reports this, with the generation of the job. The pause ends when the spec changes or no failed Pod exists any more.
// Failures that were counted before never pause the job again.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package broadcastjob
