// Package statefulset is the reference controller for apps.kruise.io StatefulSets: Pods with numbers, names and claims of their own, updated
// in place where that is possible.
//
// It works as the controller of CloneSets does: one loop keyed by StatefulSet reads as one paragraph, observe, decide, act, report, and
// a second one keyed by Pod finishes what needs no budget. What is its own is which numbers there are and in which order Pods are
// created, deleted and updated, who owns the claims, and that claims grow.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists each
// difference that can be seen from outside.
//
// RBAC: see examples/config/rbac. Pods (all verbs), pods/status and pods/resize (patch), controllerrevisions,
// persistentvolumeclaims, events, statefulsets with status; storageclasses read.
package statefulset
