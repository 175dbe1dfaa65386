// Package statefulset is the reference controller for apps.kruise.io StatefulSets: Pods with numbers, names and claims,
// updated in place where possible.
//
// The controller works like the CloneSet controller. A reconcile of a StatefulSet has four steps: observe, decide, act,
// report. A second loop reconciles Pods, and finishes the steps that need no budget. Package statefulset adds to the
// CloneSet controller the set of ordinals, the order of creations, deletions and updates, the owners of claims, and the
// resizing of claims.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package statefulset
