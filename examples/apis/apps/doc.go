// Package apps answers "which keys, condition types, reasons and gates do the workloads of apps.kruise.io share with
// the rest of the cluster?"
//
// Every constant here is wire format: Pods, claims, revisions and other programs (node daemon, webhooks, dashboards)
// carry these strings, so none may change. Each comment names the writer of the key and describes the value. The types
// live in the version packages: v1beta1 is stored and the hub, v1alpha1 converts to v1beta1.
package apps
