package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// DaemonSet keeps a Pod on every fitting Node, and updates the Pods in place where possible when the template changes.
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
	// Template describes the Pods. Only a change of the template makes a new revision. No defaults are set in the
	// template. Unknown fields are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// ScaleStrategy says on which Nodes Pods are created.
	// +optional
	ScaleStrategy *DaemonSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// UpdateStrategy says how Pods of an older revision are updated.
	// +optional
	UpdateStrategy DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// MinReadySeconds is how long a Pod must be ready before it counts as available, in seconds. The default is 0.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// BurstReplicas is how many Pods may be created, deleted or updated in place at once: an integer, or a percentage,
	// rounded down, of the Nodes that should have a Pod. The default is 250.
	// +optional
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`
	// RevisionHistoryLimit is the number of unused revisions to keep. The default is 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// Lifecycle contains a hook with which users can make a Pod wait before its deletion. The only hook is preDelete.
	// +optional
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// DaemonSetScaleStrategy says on which Nodes Pods are created.
type DaemonSetScaleStrategy struct {
	// If PartitionedScaling is true, Pods are not created on all Nodes at once: as many Nodes stay without a Pod as the
	// partition excludes from updates. When the partition is lowered, further Nodes get Pods, in the order of Node
	// names. The field has an effect only with the type RollingUpdate and a partition above 0. The default is false.
	// +optional
	PartitionedScaling bool `json:"partitionedScaling,omitempty"`
}

// DaemonSetUpdateStrategyType says whether Pods are updated by the controller.
type DaemonSetUpdateStrategyType string

const (
	// RollingUpdateDaemonSetStrategyType means that Pods are updated step by step, within the limits of the strategy.
	RollingUpdateDaemonSetStrategyType DaemonSetUpdateStrategyType = "RollingUpdate"
	// OnDeleteDaemonSetStrategyType means that the controller updates no Pod; if somebody deletes a Pod, the new Pod is
	// created at the newest revision.
	OnDeleteDaemonSetStrategyType DaemonSetUpdateStrategyType = "OnDelete"
)

// DaemonSetUpdateStrategy says how Pods of an older revision are updated.
type DaemonSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. The default is RollingUpdate.
	// +optional
	Type DaemonSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate contains the settings of the type RollingUpdate. If the type is RollingUpdate, the default is {}.
	// +optional
	RollingUpdate *RollingUpdateDaemonSet `json:"rollingUpdate,omitempty"`
}

// RollingUpdateType says how outdated Pods of a DaemonSet are updated.
type RollingUpdateType string

const (
	// StandardRollingUpdateType deletes the old Pod and creates a new Pod; with maxSurge, the new Pod is created first.
	StandardRollingUpdateType RollingUpdateType = "Standard"
	// InPlaceIfPossibleRollingUpdateType changes the Pod in place if possible, and replaces the Pod otherwise.
	InPlaceIfPossibleRollingUpdateType RollingUpdateType = "InPlaceIfPossible"
)

// RollingUpdateDaemonSet contains the settings of a rolling update. Percentages are percentages of the Nodes that
// should have a Pod.
type RollingUpdateDaemonSet struct {
	// RollingUpdateType is Standard or InPlaceIfPossible. The default is Standard.
	// +optional
	RollingUpdateType RollingUpdateType `json:"rollingUpdateType,omitempty"`
	// MaxUnavailable is how many Nodes may lack an available Pod during an update: an integer, or a percentage rounded
	// up. One of maxUnavailable and maxSurge must be 0, and one must be above 0. If maxSurge is not set either, the
	// default is 1, otherwise 0.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many Nodes may have a new Pod beside the old Pod during an update: an integer, or a percentage
	// rounded up. With InPlaceIfPossible, MaxSurge must be 0. The default is 0.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// Selector selects the Nodes whose Pods are updated. Pods on other Nodes are not updated. If unset, all Nodes are
	// selected.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Partition is the number of Nodes whose Pods stay at their revision: an integer, or a percentage rounded down. The
	// default is 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// If Paused is true, no Pods are updated; Pods are still created. The default is false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// DaemonSetStatus is the state of a DaemonSet as observed by the controller. All numbers are numbers of Nodes.
type DaemonSetStatus struct {
	// CurrentNumberScheduled is the number of Nodes that should have a Pod and have a Pod.
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`
	// NumberMisscheduled is the number of Nodes that should have no Pod but have a Pod.
	NumberMisscheduled int32 `json:"numberMisscheduled"`
	// DesiredNumberScheduled is the number of Nodes that should have a Pod.
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`
	// NumberReady is the number of Nodes that should have a Pod and have a ready Pod.
	NumberReady int32 `json:"numberReady"`
	// ObservedGeneration is the generation of the spec to which the status refers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// UpdatedNumberScheduled is the number of Nodes that should have a Pod and have a Pod at the newest revision.
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`
	// NumberAvailable is the number of Nodes that should have a Pod and have a Pod that has been ready for
	// minReadySeconds.
	// +optional
	NumberAvailable int32 `json:"numberAvailable,omitempty"`
	// NumberUnavailable is the number of Nodes that should have a Pod but have no available Pod.
	// +optional
	NumberUnavailable int32 `json:"numberUnavailable,omitempty"`
	// CollisionCount is the number of hash collisions that names of revisions have had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions report problems.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// UpdateRevision is the hash of the newest revision, as in the label of the Pods.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *DaemonSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain DaemonSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s DaemonSetSpec) MarshalJSON() ([]byte, error) {
	type plain DaemonSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *DaemonSetStatus) UnmarshalJSON(data []byte) error {
	type plain DaemonSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
