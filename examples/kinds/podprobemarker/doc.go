// Package podprobemarker is the reference controller for apps.kruise.io PodProbeMarkers, which probe containers of
// running Pods, and mark the Pods with the results.
//
// This controller counts the Pods of a PodProbeMarker. A finalizer keeps a deleted PodProbeMarker until no Node runs
// its probes and no Pod has its marks: the labels, annotations and conditions for the results. Package nodepodprobe
// writes the probes into NodePodProbes and marks the Pods. Both controllers follow the rules of package node/probing.
package podprobemarker
