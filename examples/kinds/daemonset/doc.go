// Package daemonset is the reference controller for apps.kruise.io DaemonSets: a Pod on every fitting Node, updated in
// place where possible.
//
// The controller works like the CloneSet controller. A reconcile of a DaemonSet has four steps: observe, decide, act,
// report. A second loop reconciles Pods, and takes the steps that do not depend on maxUnavailable, such as opening a
// readiness gate. Unlike the CloneSet controller, this controller chooses Nodes, limits the number of Pods on a Node,
// and enqueues DaemonSets when Nodes change.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package daemonset
