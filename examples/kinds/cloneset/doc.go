// Package cloneset is the reference controller for apps.kruise.io CloneSets: interchangeable Pods, updated in place
// where possible.
//
// Two loops share the work. The first is keyed by CloneSet and reads as a paragraph: observe, check that the cache
// holds all own writes, decide, act, report. The second is keyed by Pod and takes each Pod through steps without a
// budget: the end of a grace period, the next batch of containers, the readiness gate opened again, lifecycle states.
// The second loop never waits for the first, so the time a Pod is out of service does not grow with the number of Pods
// updated together.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each difference visible from outside.
package cloneset
