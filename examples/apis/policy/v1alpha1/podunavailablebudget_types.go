package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodUnavailableBudget limits how many Pods of an application may be unavailable at the same time, whatever makes
// them unavailable. The limit applies to deletions and evictions; if the gate PodUnavailableBudgetUpdateGate is on,
// also to changes of Pod specs. Annotations say to which operations the limit applies
// (policy.AnnotationProtectOperations), and name the expected number of Pods (policy.AnnotationProtectTotalReplicas).
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podunavailablebudgets,singular=podunavailablebudget,shortName=pub,scope=Namespaced
// +kubebuilder:printcolumn:name="Allowed",type=integer,JSONPath=".status.unavailableAllowed"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=".status.currentAvailable"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".status.desiredAvailable"
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=".status.totalReplicas"
type PodUnavailableBudget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PodUnavailableBudgetSpec `json:"spec,omitempty"`
	// +optional
	Status PodUnavailableBudgetStatus `json:"status,omitzero"`
}

// PodUnavailableBudgetList is a list of PodUnavailableBudgets.
//
// +kubebuilder:object:root=true
type PodUnavailableBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodUnavailableBudget `json:"items"`
}

// PodUnavailableBudgetSpec is the desired state of a PodUnavailableBudget.
type PodUnavailableBudgetSpec struct {
	// Selector selects Pods by their labels, must not be set together with TargetRef, and is immutable.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// TargetReference names the workload whose Pods are protected, must not be set together with Selector, and is
	// immutable.
	// +optional
	TargetReference *TargetReference `json:"targetRef,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable: a number, or a percentage, rounded up, of the expected
	// number of Pods (status.totalReplicas). MaxUnavailable and MinAvailable must not be set together.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MinAvailable is how many Pods must be in service: a number, or a percentage, rounded up, of the expected number
	// of Pods (status.totalReplicas).
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
}

// TargetReference names a workload in the budget's namespace.
type TargetReference struct {
	// APIVersion, Kind and Name identify the workload. Only the group matters, not the version.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
}

// PodUnavailableBudgetStatus contains the numbers of the last count, and the Pods for which operations were admitted
// since.
type PodUnavailableBudgetStatus struct {
	// ObservedGeneration is the generation of the spec with which the Pods were last counted.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`
	// DisruptedPods contains the Pods whose deletion or eviction was admitted: the Pod's name, and the time of the
	// admission.
	// +optional
	DisruptedPods map[string]metav1.Time `json:"disruptedPods,omitempty"`
	// UnavailablePods contains the Pods for which a change of the spec was admitted: the Pod's name, and the time of
	// the admission.
	// +optional
	UnavailablePods map[string]metav1.Time `json:"unavailablePods,omitempty"`
	// UnavailableAllowed is how many further Pods may be made unavailable now.
	UnavailableAllowed int32 `json:"unavailableAllowed"`
	// CurrentAvailable is the number of Pods in service, without Pods for which an operation was admitted.
	CurrentAvailable int32 `json:"currentAvailable"`
	// DesiredAvailable is the number of Pods that must be in service.
	DesiredAvailable int32 `json:"desiredAvailable"`
	// TotalReplicas is the expected number of Pods.
	TotalReplicas int32 `json:"totalReplicas"`
}
