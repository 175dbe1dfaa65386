// Package daemonset is the reference controller for apps.kruise.io DaemonSets: a Pod on every fitting Node, updated in
// place where possible.
//
// The controller works like the CloneSet controller. A reconcile of a DaemonSet has four steps: observe, decide, act,
// report. A second loop reconciles Pods, and finishes the steps that need no budget. Package daemonset adds to the
// CloneSet controller the choice of Nodes, the number of Pods on a Node, and the enqueueing of DaemonSets when Nodes
// change.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package daemonset
