package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// PersistentPodState has the Pods of one workload come back to where they ran before: to the same Node, zone, or whatever labels of Nodes it names.
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

// PersistentPodStateSpec is what the user wants.
type PersistentPodStateSpec struct {
	// TargetReference is the workload, of the same namespace. It cannot change.
	TargetReference PersistentPodStateTarget `json:"targetRef"`
	// PersistentPodAnnotations are annotations of Pods to record. They are not put on other Pods: they are for whoever reads them here.
	// +optional
	PersistentPodAnnotations []PersistentPodAnnotation `json:"persistentPodAnnotations,omitempty"`
	// RequiredPersistentTopology is what the Node of a new Pod must have in common with the former one.
	// +optional
	RequiredPersistentTopology *NodeTopologyTerm `json:"requiredPersistentTopology,omitempty"`
	// PreferredPersistentTopology is what it had better have in common.
	// +optional
	PreferredPersistentTopology []PreferredTopologyTerm `json:"preferredPersistentTopology,omitempty"`
	// PersistentPodStateRetentionPolicy says when records go. Default WhenScaled.
	// +optional
	PersistentPodStateRetentionPolicy PersistentPodStateRetentionPolicy `json:"persistentPodStateRetentionPolicy,omitempty"`

	// Undecodable is what of the spec made no sense when it was decoded. Those fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// PersistentPodStateTarget names a workload.
type PersistentPodStateTarget struct {
	// APIVersion of the workload. Its version does not matter.
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

// PreferredTopologyTerm names labels of Nodes, with what it is worth to have them in common.
type PreferredTopologyTerm struct {
	// Weight is 1 to 100.
	// +kubebuilder:validation:Minimum=0
	Weight int32 `json:"weight"`
	// Preference names the labels.
	Preference NodeTopologyTerm `json:"preference"`
}

// PersistentPodStateRetentionPolicy says when records go.
//
// +kubebuilder:validation:Enum=WhenScaled;WhenDeleted
type PersistentPodStateRetentionPolicy string

const (
	// PersistentPodStateWhenScaled has the record of a Pod go when the workload does not want the Pod any more.
	PersistentPodStateWhenScaled PersistentPodStateRetentionPolicy = "WhenScaled"
	// PersistentPodStateWhenDeleted has all records go with the workload, and none before.
	PersistentPodStateWhenDeleted PersistentPodStateRetentionPolicy = "WhenDeleted"
)

// PersistentPodStateStatus is what the controller has recorded.
type PersistentPodStateStatus struct {
	// ObservedGeneration is that of the spec which the rest is about.
	ObservedGeneration int64 `json:"observedGeneration"`
	// PodStates are the records, by the names of Pods.
	// +optional
	// +mapType=atomic
	PodStates map[string]PodState `json:"podStates,omitempty"`
}

// PodState is what is recorded of one Pod.
type PodState struct {
	// NodeName is the Node that the Pod ran on.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// NodeTopologyLabels are labels of that Node.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`
	// Annotations are some of the Pod's.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
