package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// CloneSet keeps a number of interchangeable Pods running and rolls changes of the template out in place where
// possible.
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
	// VolumeClaimTemplates are the claims of every new Pod. A change affects Pods created from then on and makes no
	// revision. Unknown fields are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// ScaleStrategy says how to create and delete Pods.
	// +optional
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// UpdateStrategy says how to replace or change Pods of an older revision.
	// +optional
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is how many unused revisions are kept. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// MinReadySeconds is how long a Pod must be ready to count as available, in seconds. Default 0.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// Lifecycle holds Pods back at creation, in-place update and deletion.
	// +optional
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`
	// ProgressDeadlineSeconds is after how many seconds without a change of the reason a rollout counts as stuck.
	// Unset or 2147483647 turns the Progressing condition off.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// CloneSetScaleStrategy says how to create and delete Pods.
type CloneSetScaleStrategy struct {
	// PodsToDelete names Pods to delete first. The controller removes the name of a Pod once the Pod is gone.
	// +optional
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// MaxUnavailable limits creations: an integer, or a percentage of replicas rounded up. Unset is unlimited.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// DisablePVCReuse stops new Pods from taking over the claims of lost Pods. Default false; v1beta1 has the opposite
	// field and so the opposite default.
	// +optional
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType says whether and how an outdated Pod is updated.
type CloneSetUpdateStrategyType string

const (
	// ReCreate deletes the Pod and creates a new one.
	ReCreate CloneSetUpdateStrategyType = "ReCreate"
	// InPlaceIfPossible changes the Pod where the change allows it, and recreates the Pod otherwise.
	InPlaceIfPossible CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// InPlaceOnly changes the Pod and never recreates it.
	InPlaceOnly CloneSetUpdateStrategyType = "InPlaceOnly"
	// OnDelete updates no Pod. Validation refuses OnDelete in v1alpha1; the value appears when a v1beta1 object is
	// read.
	OnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how to replace or change Pods of an older revision. Percentages may have decimals
// ("12.5%").
type CloneSetUpdateStrategy struct {
	// Type is ReCreate, InPlaceIfPossible or InPlaceOnly. Default ReCreate.
	// +optional
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// Partition is how many Pods stay at the current revision: an integer, or a percentage of replicas rounded up, but
	// below replicas unless exactly "100%". Default 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable during an update: an integer, or a percentage of replicas
	// rounded up when maxSurge is 0 and down otherwise. Default "20%".
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many Pods may exist above replicas during an update: an integer, or a percentage of replicas
	// rounded up. InPlaceOnly allows only 0. Default 0.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// Paused stops updates, not scaling. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// PriorityStrategy orders the Pods to update.
	// +optional
	PriorityStrategy *pub.PriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads Pods with certain labels over the rollout, and applies after PriorityStrategy.
	// +optional
	ScatterStrategy []pub.ScatterTerm `json:"scatterStrategy,omitempty"`
	// InPlaceUpdateStrategy says how to update in place. Default {} with the two in-place policies.
	// +optional
	InPlaceUpdateStrategy *pub.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}
