package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// StatefulSet keeps numbered Pods running, each with its own name and claims, and rolls changes of the template out in
// place where possible.
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

// StatefulSetSpec is the desired state of a StatefulSet.
type StatefulSetSpec struct {
	// Replicas is the number of Pods, at least 0. Default 1.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector selects the Pods. The selector must not be empty, must match the labels of the template, and cannot
	// change.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template describes the Pods. Only a change of the template makes a new revision. Unknown fields are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// VolumeClaimTemplates are the claims of every Pod, named TEMPLATE-STATEFULSET-ORDINAL. VolumeClaimUpdateStrategy
	// says how a change affects existing claims; a change makes no revision. Unknown fields are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// VolumeClaimUpdateStrategy says how a change of VolumeClaimTemplates affects existing claims.
	// +optional
	VolumeClaimUpdateStrategy VolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitzero"`
	// ServiceName names the Service that gives Pods their DNS names, and is the subdomain of Pods. The name cannot
	// change.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// PodManagementPolicy is OrderedReady (one Pod after another) or Parallel, and cannot change. Default OrderedReady.
	// +optional
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`
	// UpdateStrategy says how to replace or change Pods of an older revision.
	// +optional
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is how many unused revisions are kept. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// ReserveOrdinals are numbers that no Pod gets: single numbers and ranges such as "3-7", both ends included.
	// Reserving the number of a Pod deletes the Pod, and another Pod takes the next free number.
	// +optional
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`
	// Lifecycle holds Pods back at creation, in-place update and deletion.
	// +optional
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`
	// ScaleStrategy says how to create and delete Pods, with podManagementPolicy Parallel.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// PersistentVolumeClaimRetentionPolicy says what becomes of claims without a Pod: Retain or Delete, once for a
	// deleted StatefulSet and once for a StatefulSet that is scaled in. Default Retain for both.
	// +optional
	PersistentVolumeClaimRetentionPolicy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	// Ordinals says where the numbers of Pods begin. The field has an effect only with feature gate
	// StatefulSetStartOrdinal.
	// +optional
	Ordinals *appsv1.StatefulSetOrdinals `json:"ordinals,omitempty"`

	// Undecodable lists the undecodable fields of the spec. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// VolumeClaimUpdateStrategyType is the effect of a change of claim templates on existing claims.
type VolumeClaimUpdateStrategyType string

const (
	// ClaimsOnDelete leaves existing claims as they are; claims created later follow the templates.
	ClaimsOnDelete VolumeClaimUpdateStrategyType = "OnDelete"
	// ClaimsOnPodRollingUpdate makes claims larger as their Pods are updated. The type has an effect only with feature
	// gate StatefulSetAutoResizePVCGate.
	ClaimsOnPodRollingUpdate VolumeClaimUpdateStrategyType = "OnPodRollingUpdate"
)

// VolumeClaimUpdateStrategy says how a change of claim templates affects existing claims.
type VolumeClaimUpdateStrategy struct {
	// Type is OnDelete or OnPodRollingUpdate. Default OnDelete.
	// +optional
	Type VolumeClaimUpdateStrategyType `json:"type,omitempty"`
}

// StatefulSetScaleStrategy says how to create and delete Pods.
type StatefulSetScaleStrategy struct {
	// MaxUnavailable limits how many Pods scaling may make or leave unavailable: an integer, or a percentage of
	// replicas rounded down, and at least 1. Unset is unlimited.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// StatefulSetUpdateStrategy says how to replace or change Pods of an older revision.
type StatefulSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +optional
	Type appsv1.StatefulSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate holds the settings of type RollingUpdate. Default {} with type RollingUpdate; other types must not
	// have it.
	// +optional
	RollingUpdate *RollingUpdateStatefulSet `json:"rollingUpdate,omitempty"`
}

// RollingUpdateStatefulSet holds the settings of a rolling update.
type RollingUpdateStatefulSet struct {
	// Partition is how many Pods stay at the current revision: the Pods with the lowest numbers, unless UnorderedUpdate
	// sets an order. Default 0.
	// +optional
	Partition *int32 `json:"partition,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable during an update: an integer, or a percentage of replicas
	// rounded down, and at least 1. podManagementPolicy OrderedReady allows only 1. Default 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. Default ReCreate. The in-place policies need the
	// readiness gate InPlaceUpdateReady in the template.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`
	// Paused stops updates, not scaling. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// UnorderedUpdate updates Pods in another order than from the highest number down, and needs podManagementPolicy
	// Parallel.
	// +optional
	UnorderedUpdate *UnorderedUpdate `json:"unorderedUpdate,omitempty"`
	// InPlaceUpdateStrategy says how to update in place. Annotations of the StatefulSet say how images are pulled
	// ahead.
	// +optional
	InPlaceUpdateStrategy *pub.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
	// MinReadySeconds is how long a Pod must be ready to count as available, in seconds, at most 300. Default 0.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// UnorderedUpdate orders the Pods to update.
type UnorderedUpdate struct {
	// PriorityStrategy says which Pods come first. Among equals, the highest number comes first.
	// +optional
	PriorityStrategy *pub.PriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetStatus is the state of a StatefulSet as observed by the controller.
type StatefulSetStatus struct {
	// ObservedGeneration is the generation of the spec reflected in the status.
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
	// CurrentRevision is the name of the revision being replaced, or of the newest revision when none is being
	// replaced.
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
	Conditions Conditions `json:"conditions,omitempty"`
	// LabelSelector is the selector as a string, for autoscalers.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
	// VolumeClaims says how far the claims of Pods follow each claim template.
	// +optional
	VolumeClaims []VolumeClaimStatus `json:"volumeClaims,omitempty"`
}

// VolumeClaimStatus says how far the claims of Pods follow a claim template.
type VolumeClaimStatus struct {
	// VolumeClaimName is the name of the template.
	VolumeClaimName string `json:"volumeClaimName"`
	// CompatibleReplicas is the number of Pods with a claim that requests as much as the template, or more.
	CompatibleReplicas int32 `json:"compatibleReplicas"`
	// CompatibleReadyReplicas is how many of the CompatibleReplicas have got the requested storage.
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *StatefulSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain StatefulSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s StatefulSetSpec) MarshalJSON() ([]byte, error) {
	type plain StatefulSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *StatefulSetStatus) UnmarshalJSON(data []byte) error {
	type plain StatefulSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
