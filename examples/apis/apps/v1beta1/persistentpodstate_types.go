package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// PersistentPodState brings the Pods of a workload back to where they ran before: to the same Node, the same zone, or a
// Node with the same values of whatever labels the spec names.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=persistentpodstates,singular=persistentpodstate
type PersistentPodState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PersistentPodStateSpec `json:"spec,omitempty"`
	// +optional
	Status PersistentPodStateStatus `json:"status,omitempty"`
}

// PersistentPodStateList is a list of PersistentPodStates.
//
// +kubebuilder:object:root=true
type PersistentPodStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PersistentPodState `json:"items"`
}

// PersistentPodStateSpec is the desired state of a PersistentPodState.
type PersistentPodStateSpec struct {
	// TargetReference is the workload, in the same namespace, and cannot change.
	TargetReference PersistentPodStateTarget `json:"targetRef"`
	// PersistentPodAnnotations are annotations of Pods to record. Recorded annotations are for readers of the status:
	// no other Pod gets them.
	// +optional
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`
	// RequiredPersistentTopology names labels of Nodes. The Node of a new Pod must have the same values as the former
	// Node.
	// +optional
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`
	// PreferredPersistentTopology names labels of Nodes, with weights. A Node with the same values as the former Node
	// is preferred.
	// +optional
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`
	// PersistentPodStateRetentionPolicy says when records are dropped. Default WhenScaled.
	// +optional
	PersistentPodStateRetentionPolicy PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`

	// Undecodable lists the undecodable fields of the spec. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// PersistentPodStateTarget names a workload.
type PersistentPodStateTarget struct {
	// APIVersion of the workload. The version within the group does not matter.
	APIVersion string `json:"apiVersion"`
	// Kind of the workload.
	Kind string `json:"kind"`
	// Name of the workload.
	Name string `json:"name"`
}

// PersistentPodAnnotation names an annotation.
type PersistentPodAnnotation struct {
	// Key of the annotation.
	Key string `json:"key"`
}

// NodeTopologyTerm names labels of Nodes.
type NodeTopologyTerm struct {
	// Keys of the labels.
	Keys []string `json:"keys"`
}

// PreferredTopologyTerm names labels of Nodes, with the weight of having the same values.
type PreferredTopologyTerm struct {
	// Weight is 1 to 100.
	// +kubebuilder:validation:Minimum=0
	Weight int32 `json:"weight"`
	// Preference names the labels.
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodStateRetentionPolicy says when records are dropped.
//
// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
type PersistentPodStateRetentionPolicy string

const (
	// PersistentPodStateWhenScaled drops the record of a Pod when the workload no longer wants the Pod.
	PersistentPodStateWhenScaled PersistentPodStateRetentionPolicy = "WhenScaled"
	// PersistentPodStateWhenDeleted drops all records with the workload, and none before.
	PersistentPodStateWhenDeleted PersistentPodStateRetentionPolicy = "WhenDeleted"
)

// PersistentPodStateStatus holds the records of the controller.
type PersistentPodStateStatus struct {
	// ObservedGeneration is the generation of the spec reflected in the status.
	ObservedGeneration int64 `json:"observedGeneration"`
	// PodStates are the records, by the names of Pods.
	// +optional
	// +mapType=atomic
	PodStates map[string]PodState `json:"podStates,omitempty"`
}

// PodState is the record of a Pod.
type PodState struct {
	// NodeName is the Node that the Pod ran on.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// NodeTopologyLabels are the recorded labels of the Node.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`
	// Annotations are the recorded annotations of the Pod.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *PersistentPodStateSpec) UnmarshalJSON(data []byte) (err error) {
	type plain PersistentPodStateSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s PersistentPodStateSpec) MarshalJSON() ([]byte, error) {
	type plain PersistentPodStateSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *PersistentPodStateStatus) UnmarshalJSON(data []byte) error {
	type plain PersistentPodStateStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
