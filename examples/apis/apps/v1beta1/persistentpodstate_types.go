package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// PersistentPodState makes recreated Pods of a workload run where the Pods ran before: on the same Node, in the same
// zone, or on a Node with the same values of the labels that the spec names.
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
	// TargetReference is the workload, which must be in the same namespace, and is immutable.
	TargetReference PersistentPodStateTarget `json:"targetRef"`
	// PersistentPodAnnotations lists annotations of Pods to record. Recorded annotations are only shown in the status;
	// no Pod gets the annotations.
	// +optional
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`
	// RequiredPersistentTopology lists labels of Nodes. The Node of a recreated Pod must have the same values of these
	// labels as the old Node.
	// +optional
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`
	// PreferredPersistentTopology lists labels of Nodes, with weights. For a recreated Pod, a Node with the same values
	// of these labels as the old Node is preferred.
	// +optional
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`
	// PersistentPodStateRetentionPolicy says when records are deleted. The default is WhenScaled.
	// +optional
	PersistentPodStateRetentionPolicy PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// PersistentPodStateTarget names a workload.
type PersistentPodStateTarget struct {
	// APIVersion is the API version of the workload. Only the group matters, not the version.
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the workload.
	Kind string `json:"kind"`
	// Name is the name of the workload.
	Name string `json:"name"`
}

// PersistentPodAnnotation names an annotation.
type PersistentPodAnnotation struct {
	// Key is the key of the annotation.
	Key string `json:"key"`
}

// NodeTopologyTerm names labels of Nodes.
type NodeTopologyTerm struct {
	// Keys lists the keys of the labels.
	Keys []string `json:"keys"`
}

// PreferredTopologyTerm lists labels of Nodes, and the weight of a Node with the same values.
type PreferredTopologyTerm struct {
	// Weight is a number from 1 to 100.
	// +kubebuilder:validation:Minimum=0
	Weight int32 `json:"weight"`
	// Preference names the labels.
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodStateRetentionPolicy says when records are deleted.
//
// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
type PersistentPodStateRetentionPolicy string

const (
	// PersistentPodStateWhenScaled means that the record of a Pod is deleted when the workload no longer wants the Pod.
	PersistentPodStateWhenScaled PersistentPodStateRetentionPolicy = "WhenScaled"
	// PersistentPodStateWhenDeleted means that records are deleted only when the workload is deleted.
	PersistentPodStateWhenDeleted PersistentPodStateRetentionPolicy = "WhenDeleted"
)

// PersistentPodStateStatus contains the records.
type PersistentPodStateStatus struct {
	// ObservedGeneration is the generation of the spec to which the status refers.
	ObservedGeneration int64 `json:"observedGeneration"`
	// PodStates are the records, by Pod name.
	// +optional
	// +mapType=atomic
	PodStates map[string]PodState `json:"podStates,omitempty"`
}

// PodState is the record of a Pod.
type PodState struct {
	// NodeName is the Node on which the Pod ran.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// NodeTopologyLabels are the recorded labels of the Node.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`
	// Annotations are the recorded annotations of the Pod.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *PersistentPodStateSpec) UnmarshalJSON(data []byte) (err error) {
	type plain PersistentPodStateSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s PersistentPodStateSpec) MarshalJSON() ([]byte, error) {
	type plain PersistentPodStateSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *PersistentPodStateStatus) UnmarshalJSON(data []byte) error {
	type plain PersistentPodStateStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
