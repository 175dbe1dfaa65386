package apps

// These are the keys of PodProbeMarkers and of enhanced liveness probes.
const (
	// FinalizerPodProbeMarker prevents the deletion of a PodProbeMarker until the Nodes no longer run the probes, and
	// the labels, annotations and conditions that the probes have set on Pods have been undone. The value is written
	// by the controller.
	FinalizerPodProbeMarker = "kruise.io/node-pod-probe-cleanup"
	// AnnotationProbeMarks on a Pod lists the conditions, labels and annotations that probes have set on the Pod, as
	// JSON. OpenKruise has no such annotation. The value is written by the controller.
	AnnotationProbeMarks = "kruise.io/podprobe-marks"
	// AnnotationPodProbeMarkerList on a Pod names the PodProbeMarkers of the Pod, separated by commas. If a Pod has
	// the annotation, selectors of PodProbeMarkers are ignored. The value is written at admission.
	AnnotationPodProbeMarkerList = "kruise.io/podprobemarker-list"
	// AnnotationUsingEnhancedLiveness on a new Pod, with the value "true", moves the liveness probes of the containers to
	// the node agent, if the gate EnhancedLivenessProbe is on. The value is written by users.
	AnnotationUsingEnhancedLiveness = "apps.kruise.io/using-enhanced-liveness"
	// AnnotationContainerProbeContext on a Pod keeps the liveness probes that were moved, as JSON. The value is written
	// at admission.
	AnnotationContainerProbeContext = "apps.kruise.io/container-probe-context"
	// LabelRequestPodName on a ContainerRecreateRequest names the Pod whose liveness probe has failed.
	LabelRequestPodName = "crr.apps.kruise.io/pod-name"
)

// EventInvalidPodProbeMarker is a Warning of a PodProbeMarker: parts of the spec have no effect.
const EventInvalidPodProbeMarker = "InvalidPodProbeMarker"

// These are events of Pods about probes, as sent by the node agent.
const (
	// EventProbeSucceeded says that a probe of a container has begun to succeed.
	EventProbeSucceeded = "KruiseProbeSucceeded"
	// EventProbeFailed says that a probe of a container has begun to fail.
	EventProbeFailed = "KruiseProbeFailed"
	// EventLivenessFailed is a Warning: a container of the Pod has failed its liveness probe, and is restarted.
	EventLivenessFailed = "KruiseLivenessFailed"
)
