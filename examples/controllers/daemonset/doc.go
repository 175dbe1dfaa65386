// Package daemonset is the reference controller for apps.kruise.io DaemonSets: a Pod on every Node that fits, updated in place where that is
// possible.
//
// It works as the controller of CloneSets does: one loop keyed by DaemonSet reads as one paragraph, observe, decide, act, report, and a
// second one keyed by Pod finishes what needs no budget. What is its own is which Nodes fit, what a Node is to have, and that Nodes wake
// the DaemonSets that they mean something to.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists each difference
// that can be seen from outside.
//
// RBAC: see examples/config/rbac. Pods (all verbs), pods/status and pods/resize (patch), controllerrevisions, events, daemonsets with
// status; nodes read.
package daemonset
