package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// DaemonSet keeps a Pod on every Node that fits and rolls changes of its template out, in place where possible.
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

// DaemonSetSpec is what the user wants.
type DaemonSetSpec struct {
	// Selector selects the Pods. It must not be empty, must match the labels of the template, and cannot change.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is what Pods are made from. Only a change of this field makes a new revision. No defaults are written into it. Fields
	// unknown to this version of the API are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// ScaleStrategy says on which Nodes Pods are created.
	// +optional
	ScaleStrategy *DaemonSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// UpdateStrategy says how to replace or change Pods of an older revision.
	// +optional
	UpdateStrategy DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// MinReadySeconds is how long a Pod must be ready before it is available, in seconds. Default 0.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// BurstReplicas limits how many Pods are created, deleted or updated in place in one pass: an integer, or a percentage of the Nodes
	// that should have a Pod, rounded down. Default 250.
	// +optional
	BurstReplicas *intstr.IntOrString `json:"burstReplicas,omitempty"`
	// RevisionHistoryLimit is how many unused revisions are kept. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// Lifecycle holds Pods back at deletion. It has no other hook than preDelete.
	// +optional
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`

	// Undecodable says what of the spec could not be decoded. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// DaemonSetScaleStrategy says on which Nodes Pods are created.
type DaemonSetScaleStrategy struct {
	// PartitionedScaling keeps as many Nodes without a Pod as the partition keeps from the newest revision, instead of creating Pods
	// everywhere at once: Nodes get theirs in the order of their names as the partition is lowered. It has an effect with type
	// RollingUpdate and a partition above 0. Default false.
	// +optional
	PartitionedScaling bool `json:"partitionedScaling,omitempty"`
}

// DaemonSetUpdateStrategyType is the kind of update.
type DaemonSetUpdateStrategyType string

const (
	// RollingUpdateDaemonSetStrategyType updates Pods step by step within a budget.
	RollingUpdateDaemonSetStrategyType DaemonSetUpdateStrategyType = "RollingUpdate"
	// OnDeleteDaemonSetStrategyType updates no Pod; Pods deleted by others come back at the newest revision.
	OnDeleteDaemonSetStrategyType DaemonSetUpdateStrategyType = "OnDelete"
)

// DaemonSetUpdateStrategy says how to replace or change Pods of an older revision.
type DaemonSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +optional
	Type DaemonSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate holds the settings of type RollingUpdate, which creates it when missing.
	// +optional
	RollingUpdate *RollingUpdateDaemonSet `json:"rollingUpdate,omitempty"`
}

// RollingUpdateType says what becomes of an outdated Pod of a DaemonSet.
type RollingUpdateType string

const (
	// StandardRollingUpdateType deletes the Pod and creates a new one, or with maxSurge a new one first.
	StandardRollingUpdateType RollingUpdateType = "Standard"
	// InPlaceIfPossibleRollingUpdateType changes the Pod where the change allows it and replaces it otherwise.
	InPlaceIfPossibleRollingUpdateType RollingUpdateType = "InPlaceIfPossible"
)

// RollingUpdateDaemonSet holds the settings of a rolling update. Percentages are of the Nodes that should have a Pod.
type RollingUpdateDaemonSet struct {
	// RollingUpdateType is Standard or InPlaceIfPossible. Default Standard.
	// +optional
	RollingUpdateType RollingUpdateType `json:"rollingUpdateType,omitempty"`
	// MaxUnavailable is on how many Nodes no Pod may be available during an update: an integer, or a percentage rounded up. Exactly one of
	// it and maxSurge is not 0. Default 1 when maxSurge is not set either, otherwise 0.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many Nodes may have a new Pod beside the old one during an update: an integer, or a percentage rounded up. It must
	// be 0 with InPlaceIfPossible. Default 0.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// Selector selects Nodes: Pods on others are not updated. Unset selects all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Partition is on how many Nodes Pods stay at their revision: an integer, or a percentage rounded down. Default 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// Paused stops updates, not the creation of Pods. Default false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// DaemonSetStatus is what the controller observed. Nodes count.
type DaemonSetStatus struct {
	// CurrentNumberScheduled is on how many Nodes a Pod runs that should.
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`
	// NumberMisscheduled is on how many Nodes a Pod runs that should not.
	NumberMisscheduled int32 `json:"numberMisscheduled"`
	// DesiredNumberScheduled is on how many Nodes a Pod should run.
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`
	// NumberReady is on how many Nodes a Pod that should run is ready.
	NumberReady int32 `json:"numberReady"`
	// ObservedGeneration is the generation this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// UpdatedNumberScheduled is on how many Nodes a Pod that should run is at the newest revision.
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`
	// NumberAvailable is on how many Nodes a Pod that should run has been ready for minReadySeconds.
	// +optional
	NumberAvailable int32 `json:"numberAvailable,omitempty"`
	// NumberUnavailable is on how many Nodes no Pod is available and one should be.
	// +optional
	NumberUnavailable int32 `json:"numberUnavailable,omitempty"`
	// CollisionCount is how many hash collisions revision names had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions say what is wrong.
	// +optional
	Conditions []DaemonSetCondition `json:"conditions,omitempty"`
	// UpdateRevision is the hash of the newest revision, as Pods have it in a label.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
}

// DaemonSetConditionType is one of the condition types in package apps.
type DaemonSetConditionType string

// DaemonSetCondition is one condition.
type DaemonSetCondition struct {
	// Type is the name of the condition.
	Type DaemonSetConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is a CamelCase word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is for humans.
	// +optional
	Message string `json:"message,omitempty"`
}
