// Package apps answers "which keys, condition types, reasons and gates do the workloads of apps.kruise.io share with
// the rest of the cluster?"
//
// Every constant in this package is part of the wire format: Pods, claims and revisions contain these strings, and node
// agents, webhooks and dashboards read the strings, so no string may change. The comment of a key says who writes the
// key, and describes the value. The types are in the packages of the versions: v1beta1 is the stored version and the
// hub of conversions, and v1alpha1 converts to v1beta1.
package apps
