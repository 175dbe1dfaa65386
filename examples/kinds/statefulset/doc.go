// Package statefulset is the reference controller for apps.kruise.io StatefulSets: Pods with ordinals, stable names
// and PersistentVolumeClaims, updated in place where possible.
//
// The controller works like the CloneSet controller. A reconcile of a StatefulSet has four steps: observe, decide,
// act, report. A second loop reconciles Pods, and takes the steps that do not depend on maxUnavailable, such as
// opening a readiness gate. Unlike the CloneSet controller, this controller handles ordinals, an order of creations,
// deletions and updates, owner references of claims, and the resizing of claims.
//
// Where OpenKruise 1.9 has a bug, a gap or a limit, this controller does better; the table in examples/README.md lists
// each visible difference.
package statefulset
