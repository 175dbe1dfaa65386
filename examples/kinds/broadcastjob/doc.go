// Package broadcastjob is the reference controller for apps.kruise.io BroadcastJobs: a Pod that ends, on every fitting
// Node.
//
// A loop keyed by job reads as a paragraph: observe, decide, act, report. resolve reads a spec, once for each spec, and
// decide decides a whole pass; both are pure, and package completion has the common rules of jobs. The controller finds
// Pods by their controller reference, of any version, and identifies Pods by their Node.
//
// # The end
//
// The controller records the end of a job before acting on the end. Only then does the controller end running Pods,
// including Pods whose containers restart too often. As such Pods go, their number moves from active to failed. So
// after a crash at any point the next process continues from the status. Succeeded Pods stay until the job is deleted.
//
// # Failures that pause
//
// With the failure policy Pause the job pauses when more Pods have failed than counted in its status. Condition Paused
// says so, with the generation of the job. The pause lasts until the spec changes or no failed Pod is left. Earlier
// failures never pause the job again.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each difference visible from outside.
package broadcastjob
