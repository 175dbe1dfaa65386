package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// StatefulSet keeps numbered Pods running, each with its own name and claims, and updates the Pods in place where
// possible when the template changes.
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
	// Replicas is the number of Pods, at least 0. The default is 1.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector selects the Pods. The selector must not be empty, must match the labels of the template, and cannot
	// change.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template describes the Pods. Only a change of the template makes a new revision. Unknown fields are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// VolumeClaimTemplates describe the PersistentVolumeClaims of every Pod. The names of the claims have the form
	// TEMPLATE-STATEFULSET-ORDINAL. VolumeClaimUpdateStrategy says how a change affects existing claims. A change
	// makes no new revision. Unknown fields are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// VolumeClaimUpdateStrategy says how a change of VolumeClaimTemplates affects existing claims.
	// +optional
	VolumeClaimUpdateStrategy VolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitzero"`
	// ServiceName is the name of the Service that gives Pods their DNS names. Pods have this name as their subdomain.
	// The field is immutable.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// PodManagementPolicy is OrderedReady (Pods are created one after the other) or Parallel, and is immutable. The
	// default is OrderedReady.
	// +optional
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`
	// UpdateStrategy says how Pods of an older revision are updated.
	// +optional
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of unused revisions to keep. The default is 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// ReserveOrdinals are ordinals that no Pod gets: single numbers, and ranges such as "3-7", which include both ends.
	// If the ordinal of a Pod is reserved, the Pod is deleted, and a Pod with the next free ordinal is created.
	// +optional
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`
	// Lifecycle contains hooks with which users can make Pods wait at creation, in-place update and deletion.
	// +optional
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`
	// ScaleStrategy contains the limits for creating and deleting Pods, and is used with the podManagementPolicy
	// Parallel.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// PersistentVolumeClaimRetentionPolicy says what is done with claims whose Pod is no longer wanted: Retain or
	// Delete, separately for a StatefulSet that is deleted and for a StatefulSet that is scaled in. The default of both
	// is Retain.
	// +optional
	PersistentVolumeClaimRetentionPolicy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	// Ordinals says with which ordinal the Pods begin. The field has an effect only if the feature gate
	// StatefulSetStartOrdinal is on.
	// +optional
	Ordinals *appsv1.StatefulSetOrdinals `json:"ordinals,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// VolumeClaimUpdateStrategyType says how a change of claim templates affects existing claims.
type VolumeClaimUpdateStrategyType string

const (
	// ClaimsOnDelete means that existing claims are not changed; claims that are created later follow the templates.
	ClaimsOnDelete VolumeClaimUpdateStrategyType = "OnDelete"
	// ClaimsOnPodRollingUpdate means that claims are enlarged when their Pods are updated. The type has an effect only
	// if the feature gate StatefulSetAutoResizePVCGate is on.
	ClaimsOnPodRollingUpdate VolumeClaimUpdateStrategyType = "OnPodRollingUpdate"
)

// VolumeClaimUpdateStrategy says how a change of claim templates affects existing claims.
type VolumeClaimUpdateStrategy struct {
	// Type is OnDelete or OnPodRollingUpdate. The default is OnDelete.
	// +optional
	Type VolumeClaimUpdateStrategyType `json:"type,omitempty"`
}

// StatefulSetScaleStrategy contains the limits for creating and deleting Pods.
type StatefulSetScaleStrategy struct {
	// MaxUnavailable is how many Pods may be unavailable while the StatefulSet is scaled: an integer, or a percentage
	// of replicas rounded down, but at least 1. If unset, there is no limit.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// StatefulSetUpdateStrategy says how Pods of an older revision are updated.
type StatefulSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. The default is RollingUpdate.
	// +optional
	Type appsv1.StatefulSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate contains the settings of the type RollingUpdate. If the type is RollingUpdate, the default is {};
	// with other types the field must be unset.
	// +optional
	RollingUpdate *RollingUpdateStatefulSet `json:"rollingUpdate,omitempty"`
}

// RollingUpdateStatefulSet contains the settings of a rolling update.
type RollingUpdateStatefulSet struct {
	// Partition is the number of Pods that stay at the current revision: the Pods with the lowest ordinals, unless
	// UnorderedUpdate sets another order. The default is 0.
	// +optional
	Partition *int32 `json:"partition,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable during an update: an integer, or a percentage of replicas
	// rounded down, but at least 1. With the podManagementPolicy OrderedReady, MaxUnavailable must be 1. The default is
	// 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. The default is ReCreate. The in-place policies
	// require the readiness gate InPlaceUpdateReady in the template.
	// +optional
	PodUpdatePolicy PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`
	// If Paused is true, no Pods are updated; scaling continues. The default is false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// UnorderedUpdate says in which order Pods are updated. If unset, Pods are updated from the highest ordinal down.
	// The field requires the podManagementPolicy Parallel.
	// +optional
	UnorderedUpdate *UnorderedUpdate `json:"unorderedUpdate,omitempty"`
	// InPlaceUpdateStrategy contains the settings for updates in place. Annotations of the StatefulSet say how images
	// are pulled before an update.
	// +optional
	InPlaceUpdateStrategy *pub.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
	// MinReadySeconds is how long a Pod must be ready before it counts as available, in seconds, at most 300. The
	// default is 0.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// UnorderedUpdate says in which order Pods are updated.
type UnorderedUpdate struct {
	// PriorityStrategy says which Pods are updated first. Among Pods of the same priority, the Pod with the highest
	// ordinal is first.
	// +optional
	PriorityStrategy *pub.PriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetStatus is the state of a StatefulSet as observed by the controller.
type StatefulSetStatus struct {
	// ObservedGeneration is the generation of the spec to which the status refers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of Pods.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of running and ready Pods.
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of Pods that have been ready for minReadySeconds.
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
	// CurrentRevision is the name of the revision that an update is replacing. Without an update in progress,
	// CurrentRevision is the name of the newest revision.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// UpdateRevision is the name of the newest revision.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CollisionCount is the number of hash collisions that names of revisions have had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions describe the state of scaling and of the update.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// LabelSelector is the selector in the form of a string, for autoscalers.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
	// VolumeClaims says for each claim template how many claims of Pods match the template.
	// +optional
	VolumeClaims []VolumeClaimStatus `json:"volumeClaims,omitempty"`
}

// VolumeClaimStatus says how many claims of Pods match a claim template.
type VolumeClaimStatus struct {
	// VolumeClaimName is the name of the claim template.
	VolumeClaimName string `json:"volumeClaimName"`
	// CompatibleReplicas is the number of Pods with a claim that requests at least as much storage as the template.
	CompatibleReplicas int32 `json:"compatibleReplicas"`
	// CompatibleReadyReplicas is how many of the CompatibleReplicas have received the requested storage.
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *StatefulSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain StatefulSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s StatefulSetSpec) MarshalJSON() ([]byte, error) {
	type plain StatefulSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *StatefulSetStatus) UnmarshalJSON(data []byte) error {
	type plain StatefulSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
