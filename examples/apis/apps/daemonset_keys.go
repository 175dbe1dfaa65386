package apps

// Keys of DaemonSet.
const (
	// LabelTemplateGeneration is the generation of the template on Pods that are as old as apps.k8s.io/v1beta2. Written by DaemonSet at
	// creation where it has AnnotationTemplateGeneration. Value: an integer in decimal.
	LabelTemplateGeneration = "pod-template-generation"
	// AnnotationTemplateGeneration is the generation of the template on the DaemonSet. Written by users of long ago. Value: an integer in
	// decimal.
	AnnotationTemplateGeneration = "deprecated.daemonset.template.generation"
	// AnnotationProgressiveCreate set to "true" is how v1alpha1 spells scaleStrategy.partitionedScaling. Written by users and by
	// conversion.
	AnnotationProgressiveCreate = "daemonset.kruise.io/progressive-create-pod"
)

// ReservedDaemonSetLabels returns the labels that a DaemonSet writes on its Pods. Templates must leave them alone.
func ReservedDaemonSetLabels() []string {
	return []string{LabelRevision, LabelTemplateGeneration, LabelLifecycleState}
}
