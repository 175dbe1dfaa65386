// Package pub answers "which field shapes do the versions of the workloads have in common?"
//
// The types are used in the specs of both v1alpha1 and v1beta1, so conversion copies their values unchanged.
//
// +kubebuilder:object:generate=true
package pub

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Lifecycle contains hooks with which users can make a Pod wait at three points of its life.
type Lifecycle struct {
	// PreDelete delays the deletion of a Pod as long as the Pod has any handler of the hook.
	// +optional
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`
	// InPlaceUpdate delays an in-place update until the Pod has no handler of the hook, and after the update delays the
	// Pod's return to the state Normal until the Pod has all handlers again.
	// +optional
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`
	// PreNormal makes a new Pod count as unavailable until the Pod has all handlers of the hook.
	// +optional
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook lists the handlers of a hook: labels and finalizers. A Pod is called hooked if it has any of the
// handlers, and all-hooked if it has all handlers.
type LifecycleHook struct {
	// LabelsHandler lists the labels that are handlers. A Pod has the handler only if the label has exactly this value.
	// +optional
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`
	// FinalizersHandler lists the finalizers that are handlers.
	// +optional
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`
	// MarkPodNotReady makes the Pod not ready while the hook preDelete or inPlaceUpdate delays the deletion or
	// update. For preNormal the field has no effect. The default is false.
	// +optional
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}

// InPlaceUpdateStrategy contains the settings for updates in place. In v1alpha1 the three fields about images are part
// of the schema but have no effect: v1alpha1 uses annotations instead.
type InPlaceUpdateStrategy struct {
	// GracePeriodSeconds is how long a Pod is not ready before it is changed, in seconds. The default is 0.
	// +optional
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// ImagePreDownloadParallelism is on how many Nodes at a time an image is pulled before the update: an integer of at
	// least 0, not a percentage. The default is 1.
	// +optional
	ImagePreDownloadParallelism *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`
	// ImagePreDownloadTimeoutSeconds is how long pulling an image may take on each Node, in seconds. The default is
	// 300.
	// +optional
	ImagePreDownloadTimeoutSeconds *int32 `json:"imagePreDownloadTimeoutSeconds,omitempty"`
	// ImagePreDownloadMinUpdatedReadyPods is how many updated Pods must be ready before images are pulled for the
	// remaining Pods. The default is 0.
	// +optional
	ImagePreDownloadMinUpdatedReadyPods *int32 `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}

// PriorityStrategy says which Pods are updated first, either by weights or by keys.
type PriorityStrategy struct {
	// OrderPriority orders Pods by the first key in the list that the Pod has as a label, then by the number at the end
	// of the label's value, the largest number first.
	// +optional
	OrderPriority []OrderPriorityTerm `json:"orderPriority,omitempty"`
	// WeightPriority orders Pods by the sum of the weights of all terms that match, the largest sum first.
	// +optional
	WeightPriority []WeightPriorityTerm `json:"weightPriority,omitempty"`
}

// OrderPriorityTerm is a label key by which Pods are ordered.
type OrderPriorityTerm struct {
	// OrderedKey is the label key. The label's value should end in a number; any other value counts as 0.
	OrderedKey string `json:"orderedKey"`
}

// WeightPriorityTerm gives a weight to the Pods that match.
type WeightPriorityTerm struct {
	// Weight is between 0 and 100.
	Weight int32 `json:"weight"`
	// MatchSelector selects Pods by label, and must not be empty.
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}

// ScatterTerm spreads the updates of Pods with a certain label over the whole rollout.
type ScatterTerm struct {
	// Key is the label key.
	Key string `json:"key"`
	// Value is the label value.
	Value string `json:"value"`
}
