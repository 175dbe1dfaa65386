package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// WorkloadSpread assigns each new Pod of a workload to a subset of Nodes. The subsets are filled one after the other,
// each up to its maximum.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=workloadspreads,singular=workloadspread,shortName=ws
// +kubebuilder:printcolumn:name="WorkloadName",type=string,JSONPath=".spec.targetRef.name"
// +kubebuilder:printcolumn:name="WorkloadKind",type=string,JSONPath=".spec.targetRef.kind"
// +kubebuilder:printcolumn:name="Adaptive",type=boolean,JSONPath=".spec.scheduleStrategy.type[?(@ == \"Adaptive\")]"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type WorkloadSpread struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WorkloadSpreadSpec `json:"spec,omitempty"`
	// +optional
	Status WorkloadSpreadStatus `json:"status,omitempty"`
}

// WorkloadSpreadList is a list of WorkloadSpreads.
//
// +kubebuilder:object:root=true
type WorkloadSpreadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WorkloadSpread `json:"items"`
}

// WorkloadSpreadSpec is the desired state of a WorkloadSpread.
type WorkloadSpreadSpec struct {
	// TargetReference is the workload, which must be in the same namespace. Group, kind and name are immutable.
	TargetReference WorkloadSpreadTarget `json:"targetRef"`
	// TargetFilter selects some of the workload's Pods. If unset, all Pods are selected.
	// +optional
	TargetFilter *WorkloadSpreadTargetFilter `json:"targetFilter,omitempty"`
	// Subsets lists the subsets in the order of preference; there must be at least one.
	Subsets []WorkloadSpreadSubset `json:"subsets"`
	// ScheduleStrategy says what is done with Pods that cannot be scheduled in their subset.
	// +optional
	ScheduleStrategy WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitzero"`

	// Undecodable lists the fields of the spec that could not be decoded. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// WorkloadSpreadTarget names a workload.
type WorkloadSpreadTarget struct {
	// APIVersion is the API version of the workload. Only the group matters, not the version.
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the workload.
	Kind string `json:"kind"`
	// Name is the name of the workload.
	Name string `json:"name"`
}

// WorkloadSpreadTargetFilter selects some of the Pods of a workload.
type WorkloadSpreadTargetFilter struct {
	// Selector selects the Pods by label. If unset, all Pods are selected.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// ReplicasPathList lists paths of integers in the workload, such as spec.groups.1.replicas. Percentages are
	// percentages of the sum of these integers.
	// +optional
	ReplicasPathList []string `json:"replicasPathList,omitempty"`
}

// WorkloadSpreadSubset is a subset of Nodes, and describes how the Pods of the subset are changed.
type WorkloadSpreadSubset struct {
	// Name is the name of the subset; no two subsets have the same name.
	Name string `json:"name"`
	// RequiredNodeSelector selects the Nodes of the subset.
	// +optional
	RequiredNodeSelector *corev1.NodeSelectorTerm `json:"requiredNodeSelector,omitempty"`
	// PreferredNodeSelector contains preferences among the Nodes of the subset.
	// +optional
	PreferredNodeSelector []corev1.PreferredSchedulingTerm `json:"preferredNodeSelector,omitempty"`
	// Tolerations are added to the tolerations of the Pods.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// MaxReplicas is the largest number of Pods in the subset: a number, or a percentage of the workload's replicas,
	// rounded up. If unset, there is no limit.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`
	// Patch is a strategic merge patch that is applied to the Pods.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch *runtime.RawExtension `json:"patch,omitempty"`
}

// WorkloadSpreadScheduleStrategy says what is done with Pods that cannot be scheduled.
type WorkloadSpreadScheduleStrategy struct {
	// Type is Fixed or Adaptive. The default is Fixed.
	// +optional
	// +kubebuilder:validation:Enum=Adaptive;Fixed;""
	Type WorkloadSpreadScheduleStrategyType `json:"type,omitempty"`
	// Adaptive contains the settings of the type Adaptive.
	// +optional
	Adaptive *WorkloadSpreadAdaptiveStrategy `json:"adaptive,omitempty"`
}

// WorkloadSpreadScheduleStrategyType says whether Pods that cannot be scheduled are recreated in a later subset.
type WorkloadSpreadScheduleStrategyType string

const (
	// WorkloadSpreadAdaptive means that Pods that cannot be scheduled are deleted, so that they are recreated in a
	// later subset.
	WorkloadSpreadAdaptive WorkloadSpreadScheduleStrategyType = "Adaptive"
	// WorkloadSpreadFixed means that Pods that cannot be scheduled stay in their subset.
	WorkloadSpreadFixed WorkloadSpreadScheduleStrategyType = "Fixed"
)

// WorkloadSpreadAdaptiveStrategy says when Pods that cannot be scheduled are deleted.
type WorkloadSpreadAdaptiveStrategy struct {
	// DisableSimulationSchedule has no effect.
	// +optional
	DisableSimulationSchedule bool `json:"disableSimulationSchedule,omitempty"`
	// RescheduleCriticalSeconds is for how many seconds a Pod may be unschedulable. Afterwards the subset takes no
	// new Pods for a while, and the Pod is deleted. If unset or 0, no Pod is deleted.
	// +optional
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
}

// WorkloadSpreadStatus contains the numbers of Pods, as counted by the controller and updated by the webhooks.
type WorkloadSpreadStatus struct {
	// ObservedGeneration is the generation of the spec to which the status refers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// SubsetStatuses count the Pods of all versions of the workload, in the order of the subsets. Only
	// VersionedSubsetStatuses contain creatingPods and deletingPods.
	// +optional
	SubsetStatuses []WorkloadSpreadSubsetStatus `json:"subsetStatuses,omitempty"`
	// VersionedSubsetStatuses count the Pods of each version of the workload. For each version there is an entry for
	// every subset.
	// +optional
	VersionedSubsetStatuses map[string][]WorkloadSpreadSubsetStatus `json:"versionedSubsetStatuses,omitempty"`
}

// WorkloadSpreadSubsetStatus is the count of a subset's Pods.
type WorkloadSpreadSubsetStatus struct {
	// Name is the name of the subset.
	Name string `json:"name"`
	// Replicas is the number of active Pods at the last count.
	Replicas int32 `json:"replicas"`
	// Conditions contains the condition Schedulable, if the strategy is Adaptive.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// MissingReplicas is how many further Pods the subset can take, or -1 if the subset has no maximum.
	MissingReplicas int32 `json:"missingReplicas"`
	// CreatingPods has an entry for each Pod that admission has assigned to the subset, and that was not counted yet.
	// The key is the Pod's name, or the key in the Pod's annotation if the Pod had no name at admission. The value is
	// the time of the assignment.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`
	// DeletingPods has an entry for each counted Pod whose deletion was admitted: the Pod's name, and the time of the
	// admission.
	// +optional
	DeletingPods map[string]metav1.Time `json:"deletingPods,omitempty"`
}

// WorkloadSpreadSchedulable is the type of the condition that says whether a subset takes new Pods.
const WorkloadSpreadSchedulable = "Schedulable"

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *WorkloadSpreadSpec) UnmarshalJSON(data []byte) (err error) {
	type plain WorkloadSpreadSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s WorkloadSpreadSpec) MarshalJSON() ([]byte, error) {
	type plain WorkloadSpreadSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *WorkloadSpreadStatus) UnmarshalJSON(data []byte) error {
	type plain WorkloadSpreadStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
