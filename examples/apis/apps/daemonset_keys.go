package apps

// These are the keys of DaemonSet.
const (
	// LabelTemplateGeneration is the generation of the template from which a Pod was created, for clients of the old
	// API apps.k8s.io/v1beta2. The value is written by DaemonSet at creation if the DaemonSet has
	// AnnotationTemplateGeneration. Value: an integer in decimal.
	LabelTemplateGeneration = "pod-template-generation"
	// AnnotationTemplateGeneration is, on the DaemonSet, the generation of the template. The value is written by
	// clients of old versions. Value: an integer in decimal.
	AnnotationTemplateGeneration = "deprecated.daemonset.template.generation"
	// AnnotationProgressiveCreate on a v1alpha1 object, with the value "true", has the same effect as the v1beta1 field
	// spec.scaleStrategy.partitionedScaling. The value is written by users and by conversion.
	AnnotationProgressiveCreate = "daemonset.kruise.io/progressive-create-pod"
)

// ReservedDaemonSetLabels returns the labels written by a DaemonSet on its Pods. Pod templates must not contain these
// labels.
func ReservedDaemonSetLabels() []string {
	return []string{LabelRevision, LabelTemplateGeneration, LabelLifecycleState}
}
