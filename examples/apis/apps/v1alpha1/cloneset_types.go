package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// CloneSet keeps a number of interchangeable Pods running, and updates the Pods in place where possible when the
// template changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=clonesets,singular=cloneset,shortName=clone,scope=Namespaced
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=".status.updatedReplicas"
// +kubebuilder:printcolumn:name="UPDATED_READY",type=integer,JSONPath=".status.updatedReadyReplicas"
// +kubebuilder:printcolumn:name="UPDATED_AVAILABLE",type=integer,JSONPath=".status.updatedAvailableReplicas"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].name"
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].image"
// +kubebuilder:printcolumn:name="SELECTOR",type=string,priority=1,JSONPath=".status.labelSelector"
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CloneSetSpec           `json:"spec,omitempty"`
	Status v1beta1.CloneSetStatus `json:"status,omitempty"`
}

// CloneSetList is a list of CloneSets.
//
// +kubebuilder:object:root=true
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloneSet `json:"items"`
}

// CloneSetSpec is the desired state of a CloneSet.
type CloneSetSpec struct {
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
	// VolumeClaimTemplates describe the PersistentVolumeClaims of every new Pod. A change affects only Pods that are
	// created later, and makes no new revision. Unknown fields are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// ScaleStrategy says how to create and delete Pods.
	// +optional
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// UpdateStrategy says how Pods of an older revision are updated.
	// +optional
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of unused revisions to keep. The default is 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// MinReadySeconds is how long a Pod must be ready before it counts as available, in seconds. The default is 0.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// Lifecycle contains hooks with which users can make Pods wait at creation, in-place update and deletion.
	// +optional
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`
	// ProgressDeadlineSeconds is the number of seconds after which a rollout counts as stuck if the reason of the
	// Progressing condition does not change. If unset or 2147483647, there is no Progressing condition.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// CloneSetScaleStrategy says how to create and delete Pods.
type CloneSetScaleStrategy struct {
	// PodsToDelete names Pods that are deleted first. The controller removes a name once the Pod no longer exists.
	// +optional
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable while Pods are created: an integer, or a percentage of
	// replicas rounded up. If unset, there is no limit.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// If DisablePVCReuse is true, new Pods do not use the PersistentVolumeClaims of Pods that no longer exist. The
	// default is false. v1beta1 has the opposite field, and so the opposite default.
	// +optional
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType says whether and how outdated Pods are updated.
type CloneSetUpdateStrategyType string

const (
	// ReCreate deletes the Pod and creates a new Pod.
	ReCreate CloneSetUpdateStrategyType = "ReCreate"
	// InPlaceIfPossible changes the Pod in place if possible, and recreates the Pod otherwise.
	InPlaceIfPossible CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// InPlaceOnly changes the Pod in place, and never recreates the Pod.
	InPlaceOnly CloneSetUpdateStrategyType = "InPlaceOnly"
	// OnDelete means that the controller updates no Pod. Validation refuses OnDelete in v1alpha1. The value appears
	// when a v1beta1 object is read as v1alpha1.
	OnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how Pods of an older revision are updated. Percentages may have decimals ("12.5%").
type CloneSetUpdateStrategy struct {
	// Type is ReCreate, InPlaceIfPossible or InPlaceOnly. The default is ReCreate.
	// +optional
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// Partition is the number of Pods that stay at the current revision: an integer, or a percentage of replicas
	// rounded up. Unless the percentage is exactly "100%", the number is below replicas. The default is 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable during an update: an integer, or a percentage of replicas. The
	// percentage is rounded up if maxSurge is 0, otherwise down. The default is "20%".
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many Pods may exist in addition to replicas during an update: an integer, or a percentage of
	// replicas rounded up. With InPlaceOnly, MaxSurge must be 0. The default is 0.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// If Paused is true, no Pods are updated; scaling continues. The default is false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// PriorityStrategy says which Pods are updated first.
	// +optional
	PriorityStrategy *pub.PriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads the updates of Pods with certain labels over the whole rollout, and is applied after
	// PriorityStrategy.
	// +optional
	ScatterStrategy []pub.ScatterTerm `json:"scatterStrategy,omitempty"`
	// InPlaceUpdateStrategy contains the settings for updates in place. The default is {} with the two in-place
	// policies.
	// +optional
	InPlaceUpdateStrategy *pub.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}
