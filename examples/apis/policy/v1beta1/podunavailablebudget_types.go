package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// PodUnavailableBudget says how many Pods of an application may be out of service at a time, whoever takes them out: deletions, evictions, and
// with the gate PodUnavailableBudgetUpdateGate changes of their specs.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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

// PodUnavailableBudgetSpec is what the user wants.
type PodUnavailableBudgetSpec struct {
	// Selector selects the Pods by their labels. It excludes TargetRef, and cannot change.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// TargetReference names the workload whose Pods are protected. It excludes Selector, and cannot change.
	// +optional
	TargetReference *TargetReference `json:"targetRef,omitempty"`
	// MaxUnavailable is how many Pods may be out of service: a number, or a percentage of those that there should be, rounded up. It
	// excludes MinAvailable.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MinAvailable is how many Pods have to be in service: a number, or a percentage of those that there should be, rounded up.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// ProtectOperations are what the budget is asked about. Empty stands for DELETE, UPDATE and EVICT.
	// +optional
	ProtectOperations []Operation `json:"protectOperations,omitempty"`
	// ProtectTotalReplicas is how many Pods there should be. Unset stands for what their workloads say.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProtectTotalReplicas *int32 `json:"protectTotalReplicas,omitempty"`
	// IgnoredPodSelector selects Pods that are not protected.
	// +optional
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`

	// Undecodable is what of the spec made no sense when it was decoded. Those fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// TargetReference names a workload in the budget's namespace.
type TargetReference struct {
	// APIVersion, Kind and Name of the workload. The version within the group does not matter.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
}

// Operation is something that takes a Pod out of service.
//
// +kubebuilder:validation:Enum=DELETE;UPDATE;EVICT;RESIZE
type Operation string

// Operations.
const (
	OperationDelete Operation = "DELETE"
	OperationUpdate Operation = "UPDATE"
	OperationEvict  Operation = "EVICT"
	OperationResize Operation = "RESIZE"
)

// PodUnavailableBudgetStatus is what was counted, and what has been let go since.
type PodUnavailableBudgetStatus struct {
	// ObservedGeneration is the generation of the spec that the Pods were counted for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// DisruptedPods are Pods that were let go to be deleted, with the time.
	// +optional
	DisruptedPods map[string]metav1.Time `json:"disruptedPods,omitempty"`
	// UnavailablePods are Pods that were let go to be changed, with the time.
	// +optional
	UnavailablePods map[string]metav1.Time `json:"unavailablePods,omitempty"`
	// UnavailableAllowed is how many more Pods may be taken out of service.
	UnavailableAllowed int32 `json:"unavailableAllowed"`
	// CurrentAvailable is how many Pods are in service, without those that were let go.
	CurrentAvailable int32 `json:"currentAvailable"`
	// DesiredAvailable is how many have to be.
	DesiredAvailable int32 `json:"desiredAvailable"`
	// TotalReplicas is how many Pods there should be.
	TotalReplicas int32 `json:"totalReplicas"`

	// Undecodable is what of the status made no sense when it was decoded. Those fields are unset, and so is ObservedGeneration.
	Undecodable []decode.Problem `json:"-"`
}
