// Package cloneset is the reference controller for apps.kruise.io CloneSets: interchangeable Pods, updated in place
// where possible.
//
// The controller has two loops. The first loop reconciles CloneSets, in these steps: observe, check that the cache
// holds all own writes, decide, act, report. The second is keyed by Pod and takes the steps that need no budget: the
// end of a grace period, the next batch of containers, opening the readiness gate again, lifecycle states. The second
// loop never waits for the first, so Pods are not out of service for longer if many Pods are updated at the same time.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package cloneset
