// Package apps answers "which keys, condition types, reasons and gates do the workloads of apps.kruise.io share with
// the rest of the cluster?"
//
// Every constant here is part of the wire format: Pods, claims and revisions contain these strings, and the node
// daemon, webhooks and dashboards read them, so no string may change. The comment of a key names the writer and
// describes the value. The types are in the packages of the versions: v1beta1 is the stored version and the hub of
// conversions, and v1alpha1 converts to v1beta1.
package apps
