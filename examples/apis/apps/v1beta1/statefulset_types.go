package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// StatefulSet keeps numbered Pods running, each with a name and claims of its own, and rolls changes of their template out in place where
// possible.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=statefulsets,singular=statefulset,shortName=sts;asts,scope=Namespaced
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=".status.updatedReplicas"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].name"
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].image"
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   StatefulSetSpec   `json:"spec,omitempty"`
	Status StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSets.
//
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []StatefulSet `json:"items"`
}

// StatefulSetSpec is what the user wants.
type StatefulSetSpec struct {
	// Replicas is the number of Pods, at least 0. Default 1.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector selects the Pods. It must not be empty, must match the labels of the template, and cannot change.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is what Pods are made from. Only a change of this field makes a new revision. Fields unknown to this
	// version of the API are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// VolumeClaimTemplates are the claims every Pod gets, named TEMPLATE-STATEFULSET-ORDINAL. What a change
	// does to claims that exist is for VolumeClaimUpdateStrategy to say; it makes no revision. Fields unknown to this version of the API are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// VolumeClaimUpdateStrategy says what a change of VolumeClaimTemplates does to claims that exist.
	// +optional
	VolumeClaimUpdateStrategy VolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitzero"`
	// ServiceName names the Service that gives Pods their DNS names; it is their subdomain. It cannot change.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// PodManagementPolicy is OrderedReady, one Pod after the other, or Parallel. Default OrderedReady. It cannot change.
	// +optional
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`
	// UpdateStrategy says how to replace or change Pods of an older revision.
	// +optional
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is how many unused revisions are kept. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// ReserveOrdinals are numbers that no Pod gets: single ones and ranges such as "3-7", both ends included. Reserving the number of a
	// Pod deletes it, and another Pod takes the next number that is free.
	// +optional
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`
	// Lifecycle holds Pods back at creation, in-place update and deletion.
	// +optional
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`
	// ScaleStrategy says how to create and delete Pods. It is for podManagementPolicy Parallel.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// PersistentVolumeClaimRetentionPolicy says what becomes of claims without a Pod: Retain or Delete, once for a StatefulSet that is
	// deleted and once for one that is scaled in. Default Retain for both.
	// +optional
	PersistentVolumeClaimRetentionPolicy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	// Ordinals says where the numbers of Pods begin. It has an effect with feature gate StatefulSetStartOrdinal alone.
	// +optional
	Ordinals *appsv1.StatefulSetOrdinals `json:"ordinals,omitempty"`

	// Undecodable says what of the spec could not be decoded. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// VolumeClaimUpdateStrategyType is what a change of claim templates does to claims that exist.
type VolumeClaimUpdateStrategyType string

const (
	// ClaimsOnDelete leaves claims as they are; those that are created later follow the templates.
	ClaimsOnDelete VolumeClaimUpdateStrategyType = "OnDelete"
	// ClaimsOnPodRollingUpdate makes claims larger as their Pods are updated. It has an effect with feature gate
	// StatefulSetAutoResizePVCGate alone.
	ClaimsOnPodRollingUpdate VolumeClaimUpdateStrategyType = "OnPodRollingUpdate"
)

// VolumeClaimUpdateStrategy says what a change of claim templates does to claims that exist.
type VolumeClaimUpdateStrategy struct {
	// Type is OnDelete or OnPodRollingUpdate. Default OnDelete.
	// +optional
	Type VolumeClaimUpdateStrategyType `json:"type,omitempty"`
}

// StatefulSetScaleStrategy says how to create and delete Pods.
type StatefulSetScaleStrategy struct {
	// MaxUnavailable limits how many Pods scaling may make or leave unavailable: an integer, or a percentage of replicas rounded down,
	// and at least 1. Unset is unlimited.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// StatefulSetUpdateStrategy says how to replace or change Pods of an older revision.
type StatefulSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +optional
	Type appsv1.StatefulSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate holds the settings of type RollingUpdate, which creates it when missing; other types must not have it.
	// +optional
	RollingUpdate *RollingUpdateStatefulSet `json:"rollingUpdate,omitempty"`
}

// RollingUpdateStatefulSet holds the settings of a rolling update.
type RollingUpdateStatefulSet struct {
	// Partition is how many Pods stay at the current revision, those with the lowest numbers unless UnorderedUpdate orders them. Default 0.
	// +optional
	Partition *int32 `json:"partition,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable during an update: an integer, or a percentage of replicas rounded down, and at
	// least 1. With podManagementPolicy OrderedReady it must be 1. Default 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. Default ReCreate. The in-place policies need the readiness gate
	// InPlaceUpdateReady in the template.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`
	// Paused stops updates, not scaling. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// UnorderedUpdate updates Pods in another order than from the highest number down. It needs podManagementPolicy Parallel.
	// +optional
	UnorderedUpdate *UnorderedUpdate `json:"unorderedUpdate,omitempty"`
	// InPlaceUpdateStrategy says how to update in place. Images are pulled ahead by what annotations of the StatefulSet say.
	// +optional
	InPlaceUpdateStrategy *pub.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
	// MinReadySeconds is how long a Pod must be ready before it is available, in seconds, at most 300. Default 0.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// UnorderedUpdate orders the Pods to update.
type UnorderedUpdate struct {
	// PriorityStrategy says which Pods come first. Among equals, the highest number does.
	// +optional
	PriorityStrategy *pub.PriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetStatus is what the controller observed.
type StatefulSetStatus struct {
	// ObservedGeneration is the generation this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of Pods.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of running and ready Pods.
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of Pods ready for minReadySeconds.
	AvailableReplicas int32 `json:"availableReplicas"`
	// CurrentReplicas is the number of Pods at the current revision.
	CurrentReplicas int32 `json:"currentReplicas"`
	// UpdatedReplicas is the number of Pods at the update revision.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of ready Pods at the update revision.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`
	// UpdatedAvailableReplicas is the number of available Pods at the update revision.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// CurrentRevision is the name of the revision that is being replaced, or of the newest one when none is.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// UpdateRevision is the name of the newest revision.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CollisionCount is how many hash collisions revision names had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions say how scaling and the rollout go.
	// +optional
	Conditions []StatefulSetCondition `json:"conditions,omitempty"`
	// LabelSelector is the selector as a string, for autoscalers.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
	// VolumeClaims says of each claim template how far the claims of Pods follow it.
	// +optional
	VolumeClaims []VolumeClaimStatus `json:"volumeClaims,omitempty"`
}

// StatefulSetConditionType is one of the condition types in package apps.
type StatefulSetConditionType string

// StatefulSetCondition is one condition.
type StatefulSetCondition struct {
	// Type is FailedCreatePod or FailedUpdatePod.
	Type StatefulSetConditionType `json:"type"`
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

// VolumeClaimStatus says how far the claims of Pods follow one template.
type VolumeClaimStatus struct {
	// VolumeClaimName is the name of the template.
	VolumeClaimName string `json:"volumeClaimName"`
	// CompatibleReplicas is the number of Pods whose claim asks for what the template does, or for more.
	CompatibleReplicas int32 `json:"compatibleReplicas"`
	// CompatibleReadyReplicas is how many of those have got it.
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}
