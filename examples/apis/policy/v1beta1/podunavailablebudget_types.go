package v1beta1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// PodUnavailableBudget limits how many Pods of an application may be unavailable at the same time, whatever makes them
// unavailable. The limit applies to deletions and evictions; if the gate PodUnavailableBudgetUpdateGate is on, also to
// changes of Pod specs.
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
	// ProtectOperations lists the operations to which the limit applies. If empty, the limit applies to DELETE,
	// UPDATE and EVICT.
	// +optional
	ProtectOperations []Operation `json:"protectOperations,omitempty"`
	// ProtectTotalReplicas is the expected number of Pods. If unset, the workloads of the Pods determine the number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProtectTotalReplicas *int32 `json:"protectTotalReplicas,omitempty"`
	// IgnoredPodSelector selects Pods that are not protected.
	// +optional
	IgnoredPodSelector *metav1.LabelSelector `json:"ignoredPodSelector,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
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

// Operation is a way to take a Pod out of service.
//
// +kubebuilder:validation:Enum=DELETE;UPDATE;EVICT;RESIZE
type Operation string

// These are the operations.
const (
	OperationDelete Operation = "DELETE"
	OperationUpdate Operation = "UPDATE"
	OperationEvict  Operation = "EVICT"
	OperationResize Operation = "RESIZE"
)

// Operations returns all operations to which a budget can apply.
func Operations() []Operation {
	return []Operation{OperationDelete, OperationUpdate, OperationEvict, OperationResize}
}

// OperationsIn parses a list of operations that are separated by commas. The result is nil if an operation is
// unknown.
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

// PodUnavailableBudgetStatus contains the numbers of the last count, and the Pods for which operations were admitted
// since.
type PodUnavailableBudgetStatus struct {
	// ObservedGeneration is the generation of the spec with which the Pods were last counted.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
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

	// Undecodable lists the fields of the status that could not be decoded. Such fields are unset, and so is
	// ObservedGeneration.
	Undecodable []decode.Problem `json:"-"`
}
