// Package nodepodprobe is the reference controller for apps.kruise.io NodePodProbes, each of which lists the probes
// of a Node for the Node's agent.
//
// Each reconcile is for one Node. The controller writes the complete spec for the Pods of the Node, so probes that no
// PodProbeMarker asks for any more disappear. The controller also marks the Pods with the results that the agent has
// reported. An attacker may control the agent, so package probing accepts only results of probes in the spec, about
// Pods on the Node.
//
// Marks are labels, annotations and conditions. An annotation of the Pod, the ledger, records all marks of the Pod.
// So the controller can remove marks that no probe sets any more, even if the controller was not running when the
// PodProbeMarker was changed or deleted.
package nodepodprobe
