package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// CloneSet keeps a number of interchangeable Pods running, and updates the Pods in place where possible when the
// template changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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

	Spec   CloneSetSpec   `json:"spec,omitempty"`
	Status CloneSetStatus `json:"status,omitempty"`
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

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
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
	// If EnablePVCReuse is true, new Pods use the PersistentVolumeClaims of Pods that no longer exist. The default is
	// false. v1alpha1 has the opposite field, and so the opposite default.
	// +optional
	// +kubebuilder:default=false
	EnablePVCReuse bool `json:"enablePVCReuse,omitempty"`
	// If ExcludePreparingDelete is true, Pods in the state PreparingDelete are not counted, so that their replacements
	// are created at once. The default is false.
	// +optional
	ExcludePreparingDelete bool `json:"excludePreparingDelete,omitempty"`
}

// CloneSetUpdateStrategyType says whether Pods are updated by the controller.
type CloneSetUpdateStrategyType string

const (
	// RollingUpdate means that Pods are updated step by step, within the limits of the strategy.
	RollingUpdate CloneSetUpdateStrategyType = "RollingUpdate"
	// OnDelete means that the controller updates no Pod; if somebody deletes a Pod, the new Pod is created at the
	// update revision.
	OnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how Pods of an older revision are updated.
type CloneSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. The default is RollingUpdate.
	// +optional
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate contains the settings of the type RollingUpdate. If the type is RollingUpdate, the default is {}.
	// +optional
	RollingUpdate *RollingUpdateCloneSet `json:"rollingUpdate,omitempty"`
}

// PodUpdatePolicy says how outdated Pods are updated.
type PodUpdatePolicy string

// CloneSetPodUpdatePolicy says how outdated Pods of a CloneSet are updated.
type CloneSetPodUpdatePolicy = PodUpdatePolicy

const (
	// ReCreate deletes the Pod and creates a new Pod.
	ReCreate PodUpdatePolicy = "ReCreate"
	// InPlaceIfPossible changes the Pod in place if possible, and recreates the Pod otherwise.
	InPlaceIfPossible PodUpdatePolicy = "InPlaceIfPossible"
	// InPlaceOnly changes the Pod in place, and never recreates the Pod.
	InPlaceOnly PodUpdatePolicy = "InPlaceOnly"
)

// RollingUpdateCloneSet contains the settings of a rolling update. Percentages may have decimals ("12.5%").
type RollingUpdateCloneSet struct {
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. The default is ReCreate.
	// +optional
	PodUpdatePolicy CloneSetPodUpdatePolicy `json:"podUpdatePolicy,omitempty"`
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

// CloneSetStatus is the state of a CloneSet as observed by the controller. All numbers count only active Pods.
type CloneSetStatus struct {
	// ObservedGeneration is the generation of the spec to which the status refers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of Pods.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of running and ready Pods that are not being updated in place.
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of Pods that have been ready for minReadySeconds, and whose lifecycle state is
	// Normal or unset.
	AvailableReplicas int32 `json:"availableReplicas"`
	// UpdatedReplicas is the number of Pods at the update revision.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of ready Pods at the update revision.
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// UpdatedAvailableReplicas is the number of available Pods at the update revision.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// ExpectedUpdatedReplicas is the number of Pods that may be at the update revision according to the partition.
	// +optional
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`
	// UpdateRevision is the name of the newest revision.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CurrentRevision is the name of the revision that an update is replacing. Without an update in progress,
	// CurrentRevision is the name of the newest revision.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// CollisionCount is the number of hash collisions that names of revisions have had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions describe the state of scaling and of the update.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// LabelSelector is the selector in the form of a string, for autoscalers.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid. The schema does not check templates, and does not limit
// integers and percentages to 32 bits, but a list of CloneSets must not fail because of a single object. The invalid
// fields are listed in Undecodable.
func (s *CloneSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain CloneSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s CloneSetSpec) MarshalJSON() ([]byte, error) {
	type plain CloneSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status, because the schema accepts times that Go cannot decode, such
// as a time with a lower-case t. The next write of the status corrects the fields.
func (s *CloneSetStatus) UnmarshalJSON(data []byte) error {
	type plain CloneSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
