package v1beta1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// PodUnavailableBudget limits how many Pods of an application may be out of service at a time, whoever takes them out.
// The limit covers deletions and evictions, and with the gate PodUnavailableBudgetUpdateGate also changes of Pod specs.
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

// PodUnavailableBudgetSpec is the desired state of a PodUnavailableBudget.
type PodUnavailableBudgetSpec struct {
	// Selector selects the Pods by their labels, excludes TargetRef, and cannot change.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// TargetReference names the workload whose Pods are protected, excludes Selector, and cannot change.
	// +optional
	TargetReference *TargetReference `json:"targetRef,omitempty"`
	// MaxUnavailable is how many Pods may be out of service: a number, or a percentage of the Pods that there should
	// be, rounded up. MaxUnavailable excludes MinAvailable.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MinAvailable is how many Pods have to be in service: a number, or a percentage of the Pods that there should be,
	// rounded up.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// ProtectOperations are the operations limited by the budget. Empty stands for DELETE, UPDATE and EVICT.
	// +optional
	ProtectOperations []Operation `json:"protectOperations,omitempty"`
	// ProtectTotalReplicas is how many Pods there should be. Unset stands for the number given by the Pods' workloads.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProtectTotalReplicas *int32 `json:"protectTotalReplicas,omitempty"`
	// IgnoredPodSelector selects Pods to leave unprotected.
	// +optional
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`

	// Undecodable lists the undecodable fields of the spec. Such fields are unset.
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

// Operation is a way to take a Pod out of service.
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

// Operations returns all operations for a budget to cover.
func Operations() []Operation {
	return []Operation{OperationDelete, OperationUpdate, OperationEvict, OperationResize}
}

// OperationsIn returns the operations listed by a text with commas, or nil if an operation is unknown.
func OperationsIn(text string) (list []Operation) {
	for word := range strings.SplitSeq(text, ",") {
		operation := Operation(strings.TrimSpace(word))
		if !slices.Contains(Operations(), operation) {
			return nil
		}
		list = append(list, operation)
	}
	return list
}

// PodUnavailableBudgetStatus holds the numbers of the last count, and the Pods let go since.
type PodUnavailableBudgetStatus struct {
	// ObservedGeneration is the generation of the spec used for counting the Pods.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// DisruptedPods are Pods let go for deletion, with the time.
	// +optional
	DisruptedPods map[string]metav1.Time `json:"disruptedPods,omitempty"`
	// UnavailablePods are Pods let go for a change, with the time.
	// +optional
	UnavailablePods map[string]metav1.Time `json:"unavailablePods,omitempty"`
	// UnavailableAllowed is how many more Pods may be taken out of service.
	UnavailableAllowed int32 `json:"unavailableAllowed"`
	// CurrentAvailable is how many Pods are in service, without Pods let go.
	CurrentAvailable int32 `json:"currentAvailable"`
	// DesiredAvailable is how many Pods have to be in service.
	DesiredAvailable int32 `json:"desiredAvailable"`
	// TotalReplicas is how many Pods there should be.
	TotalReplicas int32 `json:"totalReplicas"`

	// Undecodable lists the undecodable fields of the status. Such fields are unset, and so is ObservedGeneration.
	Undecodable []decode.Problem `json:"-"`
}
