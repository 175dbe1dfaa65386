// Package nodepodprobe is the reference controller for apps.kruise.io NodePodProbes, each of which lists the probes
// of a Node for the Node's agent.
//
// Each reconcile is for one Node. The controller writes the complete spec of the Node's NodePodProbe, so probes that
// no PodProbeMarker asks for any more disappear. The controller also writes marks, which show the results that the
// agent has reported, into the Pods. An attacker may control the agent, so package probing accepts only results of
// probes in the spec, about Pods on the Node.
//
// Marks are labels, annotations and conditions. An annotation of the Pod, called the ledger, records all marks of the
// Pod. So the controller can remove marks that no probe sets any more, even if the controller was not running when
// the PodProbeMarker was changed or deleted.
package nodepodprobe
