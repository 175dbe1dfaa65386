package apps

// Keys of DaemonSet.
const (
	// LabelTemplateGeneration is the generation of the template on Pods as old as apps.k8s.io/v1beta2. Written by
	// DaemonSet at creation if the DaemonSet has AnnotationTemplateGeneration. Value: an integer in decimal.
	LabelTemplateGeneration = "pod-template-generation"
	// AnnotationTemplateGeneration is the generation of the template on the DaemonSet. Written by users of old
	// versions. Value: an integer in decimal.
	AnnotationTemplateGeneration = "deprecated.daemonset.template.generation"
	// AnnotationProgressiveCreate set to "true" is v1alpha1's spelling of scaleStrategy.partitionedScaling. Written by
	// users and by conversion.
	AnnotationProgressiveCreate = "daemonset.kruise.io/progressive-create-pod"
)

// ReservedDaemonSetLabels returns the labels written by a DaemonSet on its Pods. Templates must leave the labels alone.
func ReservedDaemonSetLabels() []string {
	return []string{LabelRevision, LabelTemplateGeneration, LabelLifecycleState}
}
