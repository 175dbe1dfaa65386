// Package daemonset is the reference controller for apps.kruise.io DaemonSets: a Pod on every fitting Node, updated in
// place where possible.
//
// The controller works like the controller of CloneSets. A loop keyed by DaemonSet reads as a paragraph: observe,
// decide, act, report. A second loop keyed by Pod finishes steps without a budget. Package daemonset adds the choice of
// fitting Nodes, the Pods wanted on a Node, and wake-ups of DaemonSets by relevant Nodes.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each difference visible from outside.
package daemonset
