package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// DaemonSet keeps a Pod on every suitable Node and rolls changes of the template out, in place where possible.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=daemonsets,singular=daemonset,shortName=daemon;ads,scope=Namespaced
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".status.desiredNumberScheduled"
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=".status.currentNumberScheduled"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=".status.numberReady"
// +kubebuilder:printcolumn:name="UP-TO-DATE",type=integer,JSONPath=".status.updatedNumberScheduled"
// +kubebuilder:printcolumn:name="AVAILABLE",type=integer,JSONPath=".status.numberAvailable"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].name"
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].image"
type DaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DaemonSetSpec   `json:"spec,omitempty"`
	Status DaemonSetStatus `json:"status,omitempty"`
}

// DaemonSetList is a list of DaemonSets.
//
// +kubebuilder:object:root=true
type DaemonSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DaemonSet `json:"items"`
}

// DaemonSetSpec is the desired state of a DaemonSet.
type DaemonSetSpec struct {
	// Selector selects the Pods. The selector must not be empty, must match the labels of the template, and cannot
	// change.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template describes the Pods. Only a change of the template makes a new revision. The template gets no defaults.
	// Unknown fields are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// ScaleStrategy says where Pods are created.
	// +optional
	ScaleStrategy *DaemonSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// UpdateStrategy says how to replace or change Pods of an older revision.
	// +optional
	UpdateStrategy DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// MinReadySeconds is how long a Pod must be ready to count as available, in seconds. Default 0.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// BurstReplicas limits how many Pods are created, deleted or updated in place in a pass: an integer, or a
	// percentage of the Nodes that should have a Pod, rounded down. Default 250.
	// +optional
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`
	// RevisionHistoryLimit is how many unused revisions are kept. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// Lifecycle holds Pods back at deletion. The only hook is preDelete.
	// +optional
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`

	// Undecodable lists the undecodable fields of the spec. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// DaemonSetScaleStrategy says where Pods are created.
type DaemonSetScaleStrategy struct {
	// PartitionedScaling keeps as many Nodes without a Pod as the partition keeps from the newest revision, instead of
	// creating Pods everywhere at once: Nodes get Pods in the order of Node names as the partition is lowered. The
	// field has an effect with type RollingUpdate and a partition above 0. Default false.
	// +optional
	PartitionedScaling bool `json:"partitionedScaling,omitempty"`
}

// DaemonSetUpdateStrategyType is the kind of update.
type DaemonSetUpdateStrategyType string

const (
	// RollingUpdateDaemonSetStrategyType updates Pods step by step within a budget.
	RollingUpdateDaemonSetStrategyType DaemonSetUpdateStrategyType = "RollingUpdate"
	// OnDeleteDaemonSetStrategyType updates no Pod; Pods deleted by somebody else come back at the newest revision.
	OnDeleteDaemonSetStrategyType DaemonSetUpdateStrategyType = "OnDelete"
)

// DaemonSetUpdateStrategy says how to replace or change Pods of an older revision.
type DaemonSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +optional
	Type DaemonSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate holds the settings of type RollingUpdate. Default {} with type RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdateDaemonSet `json:"rollingUpdate,omitempty"`
}

// RollingUpdateType says how an outdated Pod of a DaemonSet is updated.
type RollingUpdateType string

const (
	// StandardRollingUpdateType deletes the Pod and creates a new one, or with maxSurge creates the new one first.
	StandardRollingUpdateType RollingUpdateType = "Standard"
	// InPlaceIfPossibleRollingUpdateType changes the Pod where the change allows it, and replaces the Pod otherwise.
	InPlaceIfPossibleRollingUpdateType RollingUpdateType = "InPlaceIfPossible"
)

// RollingUpdateDaemonSet holds the settings of a rolling update. Percentages are of the Nodes that should have a Pod.
type RollingUpdateDaemonSet struct {
	// RollingUpdateType is Standard or InPlaceIfPossible. Default Standard.
	// +optional
	RollingUpdateType RollingUpdateType `json:"rollingUpdateType,omitempty"`
	// MaxUnavailable is how many Nodes may be without an available Pod during an update: an integer, or a percentage
	// rounded up. Exactly one of maxUnavailable and maxSurge is not 0. Default 1 when maxSurge is not set either,
	// otherwise 0.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many Nodes may have a new Pod beside the old one during an update: an integer, or a percentage
	// rounded up. InPlaceIfPossible allows only 0. Default 0.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// Selector selects Nodes: Pods on unselected Nodes are not updated. Unset selects all Nodes.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Partition is the number of Nodes whose Pods stay at their revision: an integer, or a percentage rounded down.
	// Default 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// Paused stops updates, not the creation of Pods. Default false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// DaemonSetStatus is the state of a DaemonSet as observed by the controller. Numbers count Nodes.
type DaemonSetStatus struct {
	// CurrentNumberScheduled is how many Nodes should have a Pod and run one.
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`
	// NumberMisscheduled is how many Nodes should have no Pod but run one.
	NumberMisscheduled int32 `json:"numberMisscheduled"`
	// DesiredNumberScheduled is how many Nodes should have a Pod.
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`
	// NumberReady is how many Nodes should have a Pod and have a ready one.
	NumberReady int32 `json:"numberReady"`
	// ObservedGeneration is the generation of the spec reflected in the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// UpdatedNumberScheduled is how many Nodes should have a Pod and have one at the newest revision.
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`
	// NumberAvailable is how many Nodes should have a Pod and have one that has been ready for minReadySeconds.
	// +optional
	NumberAvailable int32 `json:"numberAvailable,omitempty"`
	// NumberUnavailable is how many Nodes should have a Pod but have no available one.
	// +optional
	NumberUnavailable int32 `json:"numberUnavailable,omitempty"`
	// CollisionCount is how many hash collisions revision names had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions report problems.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// UpdateRevision is the hash of the newest revision, as in a label of the Pods.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *DaemonSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain DaemonSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s DaemonSetSpec) MarshalJSON() ([]byte, error) {
	type plain DaemonSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *DaemonSetStatus) UnmarshalJSON(data []byte) error {
	type plain DaemonSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
