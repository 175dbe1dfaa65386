package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// WorkloadSpread sends the new Pods of a workload to subsets of Nodes, in order, each subset up to a maximum.
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
	// TargetReference is the workload, in the same namespace. Group, kind and name cannot change.
	TargetReference WorkloadSpreadTarget `json:"targetRef"`
	// TargetFilter chooses a part of the workload's Pods. Without a filter all Pods are meant.
	// +optional
	TargetFilter *WorkloadSpreadTargetFilter `json:"targetFilter,omitempty"`
	// Subsets are the subsets in the order of preference, at least a subset.
	Subsets []WorkloadSpreadSubset `json:"subsets"`
	// ScheduleStrategy says what happens to Pods that cannot be scheduled in their subset.
	// +optional
	ScheduleStrategy WorkloadSpreadScheduleStrategy `json:"scheduleStrategy,omitzero"`

	// Undecodable lists the undecodable fields of the spec. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// WorkloadSpreadTarget names a workload.
type WorkloadSpreadTarget struct {
	// APIVersion of the workload. The version within the group does not matter.
	APIVersion string `json:"apiVersion"`
	// Kind of the workload.
	Kind string `json:"kind"`
	// Name of the workload.
	Name string `json:"name"`
}

// WorkloadSpreadTargetFilter chooses Pods of a workload.
type WorkloadSpreadTargetFilter struct {
	// Selector selects the Pods by label. Without a selector all Pods are meant.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// ReplicasPathList are paths of integers in the workload, such as spec.groups.1.replicas. Their sum is the number of
	// Pods of which percentages are taken.
	// +optional
	ReplicasPathList []string `json:"replicasPathList,omitempty"`
}

// WorkloadSpreadSubset is a subset of Nodes, and the changes to Pods sent there.
type WorkloadSpreadSubset struct {
	// Name of the subset, different from the other names.
	Name string `json:"name"`
	// RequiredNodeSelector must match the Nodes of the subset.
	// +optional
	RequiredNodeSelector *corev1.NodeSelectorTerm `json:"requiredNodeSelector,omitempty"`
	// PreferredNodeSelector are preferences among Nodes.
	// +optional
	PreferredNodeSelector []corev1.PreferredSchedulingTerm `json:"preferredNodeSelector,omitempty"`
	// Tolerations are added to the tolerations of the Pod.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// MaxReplicas is how many Pods may be in the subset, as a number or a percentage of the workload's replicas, rounded
	// up. Without MaxReplicas any number may be.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`
	// Patch is a strategic merge patch of the Pod.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch *runtime.RawExtension `json:"patch,omitempty"`
}

// WorkloadSpreadScheduleStrategy says what happens to Pods that cannot be scheduled.
type WorkloadSpreadScheduleStrategy struct {
	// Type is Fixed or Adaptive. Default Fixed.
	// +optional
	// +kubebuilder:validation:Enum=Adaptive;Fixed;""
	Type WorkloadSpreadScheduleStrategyType `json:"type,omitempty"`
	// Adaptive is for the type Adaptive alone.
	// +optional
	Adaptive *WorkloadSpreadAdaptiveStrategy `json:"adaptive,omitempty"`
}

// WorkloadSpreadScheduleStrategyType says whether Pods may move to a later subset.
type WorkloadSpreadScheduleStrategyType string

const (
	// WorkloadSpreadAdaptive moves Pods that cannot be scheduled to a later subset.
	WorkloadSpreadAdaptive WorkloadSpreadScheduleStrategyType = "Adaptive"
	// WorkloadSpreadFixed leaves Pods that cannot be scheduled in their subset.
	WorkloadSpreadFixed WorkloadSpreadScheduleStrategyType = "Fixed"
)

// WorkloadSpreadAdaptiveStrategy says when Pods move.
type WorkloadSpreadAdaptiveStrategy struct {
	// DisableSimulationSchedule has no effect.
	// +optional
	DisableSimulationSchedule bool `json:"disableSimulationSchedule,omitempty"`
	// RescheduleCriticalSeconds is how long a Pod may be unschedulable before the subset is closed for new Pods, and the
	// Pod is deleted. Without a value, or with 0, no Pod is deleted.
	// +optional
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
}

// WorkloadSpreadStatus is the count of Pods, written by the webhooks and by the controller.
type WorkloadSpreadStatus struct {
	// ObservedGeneration is the generation of the spec reflected in the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// SubsetStatuses count the Pods of all versions, in the order of the subsets.
	// +optional
	SubsetStatuses []WorkloadSpreadSubsetStatus `json:"subsetStatuses,omitempty"`
	// VersionedSubsetStatuses count the Pods of each version of the workload. Each version has the places of all subsets.
	// +optional
	VersionedSubsetStatuses map[string][]WorkloadSpreadSubsetStatus `json:"versionedSubsetStatuses,omitempty"`
}

// WorkloadSpreadSubsetStatus is the count of a subset's Pods.
type WorkloadSpreadSubsetStatus struct {
	// Name of the subset.
	Name string `json:"name"`
	// Replicas is how many active Pods were counted.
	Replicas int32 `json:"replicas"`
	// Conditions has the condition Schedulable, with the strategy Adaptive alone.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// MissingReplicas is how many places are free, -1 without a maximum.
	MissingReplicas int32 `json:"missingReplicas"`
	// CreatingPods are places taken for Pods that were not counted yet: the name of the Pod, or the key in its annotation,
	// with the time.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`
	// DeletingPods are places of counted Pods about to be deleted, by the names of the Pods.
	// +optional
	DeletingPods map[string]metav1.Time `json:"deletingPods,omitempty"`
}

// WorkloadSpreadSchedulable says whether a subset takes new Pods.
const WorkloadSpreadSchedulable = "Schedulable"

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *WorkloadSpreadSpec) UnmarshalJSON(data []byte) (err error) {
	type plain WorkloadSpreadSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s WorkloadSpreadSpec) MarshalJSON() ([]byte, error) {
	type plain WorkloadSpreadSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *WorkloadSpreadStatus) UnmarshalJSON(data []byte) error {
	type plain WorkloadSpreadStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
