// Package broadcastjob is the reference controller for apps.kruise.io BroadcastJobs: on every fitting Node, a Pod runs
// until it ends.
//
// A reconcile has four steps: observe, decide, act, report. The function resolve parses and validates each spec once,
// and the function decide decides what to do. Both functions are pure, and package completion contains the rules that
// all kinds of jobs share. The controller finds the Pods of a job by their controller reference, whatever API version
// the reference names, and identifies each Pod by the Pod's Node.
//
// # The end
//
// The controller writes the end of a job into the status first. Only then are running Pods deleted, including Pods
// whose containers restart too often. The deleted Pods then count as failed in the status, no longer as active. So if
// the controller crashes at any point, the next process can continue from the status. Succeeded Pods are kept until
// the job is deleted.
//
// # Failures that pause
//
// With the failure policy Pause, the job is paused when more Pods have failed than its status counts. The condition
// Paused reports the pause, with the generation of the job. The pause ends when the spec changes, or when no failed Pod
// exists any more. Failures that the status already counts never pause the job again.
//
// The table in examples/README.md lists each visible difference from OpenKruise 1.9.
package broadcastjob
