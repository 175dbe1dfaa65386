// Package cloneset is the reference controller for apps.kruise.io CloneSets: interchangeable Pods, updated in place
// where possible.
//
// The controller has two loops. The first loop reconciles CloneSets in these steps: observe, check that the cache
// shows all of the controller's writes, decide, act, report. The second loop reconciles Pods, and takes the steps
// that need no budget: ending a grace period, updating the next batch of containers, opening the readiness gate
// again, changing lifecycle states. The second loop never waits for the first loop, so the time for which a Pod is
// out of service does not grow with the number of Pods that are updated at the same time.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package cloneset
