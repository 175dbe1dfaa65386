// Package podprobemarker is the reference controller for apps.kruise.io PodProbeMarkers, which probe containers of
// running Pods, and mark the Pods with the results.
//
// This controller counts the Pods of a PodProbeMarker, and keeps the object until nothing of the object is left: no
// Node runs a probe, and no Pod has a mark. Package nodepodprobe writes the probes into NodePodProbes and marks the
// Pods. Package probing of the kit decides for both.
package podprobemarker
