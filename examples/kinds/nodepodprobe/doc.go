// Package nodepodprobe is the reference controller for apps.kruise.io NodePodProbes, each of which lists the probes of a
// Node for the Node's agent.
//
// A reconcile concerns a Node. The controller writes the complete spec for the Pods of the Node, so that whatever no
// PodProbeMarker asks for disappears, and marks the Pods with the results that the agent has reported. The agent may be
// in the hands of an attacker: package probing believes only results that the spec asks for, about Pods on the Node.
//
// All marks of a Pod are in a ledger, an annotation. Marks that no probe sets any more are taken back, even if the
// controller was not running when the PodProbeMarker was changed or deleted.
package nodepodprobe
