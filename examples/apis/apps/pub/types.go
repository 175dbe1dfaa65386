// Package pub answers "which field shapes do the versions of the workloads have in common?"
//
// The types are part of the specs of v1alpha1 and v1beta1 alike, so conversion copies values unchanged.
//
// +kubebuilder:object:generate=true
package pub

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Lifecycle lets users hold a Pod back at three points of its life.
type Lifecycle struct {
	// PreDelete holds the deletion of a Pod for as long as any handler of the hook is on the Pod.
	// +optional
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`
	// InPlaceUpdate holds an in-place update until the handlers of the hook are off the Pod, and the Pod's return to
	// Normal until all handlers are on it again.
	// +optional
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`
	// PreNormal keeps a new Pod from counting as available until all handlers of the hook are on the Pod.
	// +optional
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook names the handlers of a hook. A Pod with any of the handlers is hooked, a Pod with all handlers
// all-hooked.
type LifecycleHook struct {
	// LabelsHandler lists labels. A label counts only with the exact value.
	// +optional
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`
	// FinalizersHandler lists finalizers.
	// +optional
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`
	// MarkPodNotReady makes the Pod not ready while preDelete or inPlaceUpdate waits. preNormal ignores the field.
	// Default false.
	// +optional
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}

// InPlaceUpdateStrategy says how to update in place. In v1alpha1 the three image fields are part of the schema but
// without effect: v1alpha1 uses annotations.
type InPlaceUpdateStrategy struct {
	// GracePeriodSeconds is how long a Pod stays not ready before the change, in seconds. Default 0.
	// +optional
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// ImagePreDownloadParallelism is on how many nodes an image is pulled ahead at a time: an integer of at least 0,
	// no percentage. Default 1.
	// +optional
	ImagePreDownloadParallelism *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`
	// ImagePreDownloadTimeoutSeconds limits the pulling on each node, in seconds. Default 300.
	// +optional
	ImagePreDownloadTimeoutSeconds *int32 `json:"imagePreDownloadTimeoutSeconds,omitempty"`
	// ImagePreDownloadMinUpdatedReadyPods is how many updated Pods must be ready before images are pulled ahead.
	// Default 0.
	// +optional
	ImagePreDownloadMinUpdatedReadyPods *int32 `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}

// PriorityStrategy orders Pods for update, by weight or by keys but not both.
type PriorityStrategy struct {
	// OrderPriority sorts by the first listed label key found on a Pod, then by the number at the end of the label's
	// value, larger first.
	// +optional
	OrderPriority []OrderPriorityTerm `json:"orderPriority,omitempty"`
	// WeightPriority sorts by the sum of the weights of all matching terms, larger first.
	// +optional
	WeightPriority []WeightPriorityTerm `json:"weightPriority,omitempty"`
}

// OrderPriorityTerm names a label key.
type OrderPriorityTerm struct {
	// OrderedKey is the label key. The label's value should end in a number; any other value counts as 0.
	OrderedKey string `json:"orderedKey"`
}

// WeightPriorityTerm adds a weight to matching Pods.
type WeightPriorityTerm struct {
	// Weight is between 0 and 100.
	Weight int32 `json:"weight"`
	// MatchSelector selects Pods by label, and must not be empty.
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}

// ScatterTerm spreads Pods with a certain label value over a rollout.
type ScatterTerm struct {
	// Key is the label key.
	Key string `json:"key"`
	// Value is the label value.
	Value string `json:"value"`
}
