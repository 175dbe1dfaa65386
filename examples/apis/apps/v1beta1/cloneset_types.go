package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// CloneSet keeps a number of interchangeable Pods running and rolls changes of the template out in place where
// possible.
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

	// Undecodable lists the undecodable fields of the spec. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// CloneSetScaleStrategy says how to create and delete Pods.
type CloneSetScaleStrategy struct {
	// PodsToDelete names Pods to delete first. The controller removes the name of a Pod once the Pod is gone.
	// +optional
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// MaxUnavailable limits creations: an integer, or a percentage of replicas rounded up. Unset is unlimited.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// EnablePVCReuse lets new Pods take over the claims of lost Pods. Default false; v1alpha1 has the opposite field
	// and so the opposite default.
	// +optional
	// +kubebuilder:default=false
	EnablePVCReuse bool `json:"enablePVCReuse,omitempty"`
	// ExcludePreparingDelete leaves Pods waiting in PreparingDelete out of the count, so that their replacements come
	// at once. Default false.
	// +optional
	ExcludePreparingDelete bool `json:"excludePreparingDelete,omitempty"`
}

// CloneSetUpdateStrategyType is the kind of update.
type CloneSetUpdateStrategyType string

const (
	// RollingUpdate updates Pods step by step within budgets.
	RollingUpdate CloneSetUpdateStrategyType = "RollingUpdate"
	// OnDelete updates no Pod; Pods deleted by somebody else come back at the update revision.
	OnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how to replace or change Pods of an older revision.
type CloneSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +optional
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate holds the settings of type RollingUpdate. Default {} with type RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdateCloneSet `json:"rollingUpdate,omitempty"`
}

// PodUpdatePolicy says how an outdated Pod is updated.
type PodUpdatePolicy string

// CloneSetPodUpdatePolicy is the policy of a CloneSet.
type CloneSetPodUpdatePolicy = PodUpdatePolicy

const (
	// ReCreate deletes the Pod and creates a new one.
	ReCreate PodUpdatePolicy = "ReCreate"
	// InPlaceIfPossible changes the Pod where the change allows it, and recreates the Pod otherwise.
	InPlaceIfPossible PodUpdatePolicy = "InPlaceIfPossible"
	// InPlaceOnly changes the Pod and never recreates it.
	InPlaceOnly PodUpdatePolicy = "InPlaceOnly"
)

// RollingUpdateCloneSet holds the settings of a rolling update. Percentages may have decimals ("12.5%").
type RollingUpdateCloneSet struct {
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. Default ReCreate.
	// +optional
	PodUpdatePolicy CloneSetPodUpdatePolicy `json:"podUpdatePolicy,omitempty"`
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

// CloneSetStatus is the state of a CloneSet as observed by the controller. Only active Pods count.
type CloneSetStatus struct {
	// ObservedGeneration is the generation of the spec reflected in the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of Pods.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of running and ready Pods, without Pods being updated in place.
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of Pods ready for minReadySeconds and in lifecycle state Normal or none.
	AvailableReplicas int32 `json:"availableReplicas"`
	// UpdatedReplicas is the number of Pods at the update revision.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of ready Pods at the update revision.
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// UpdatedAvailableReplicas is the number of available Pods at the update revision.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// ExpectedUpdatedReplicas is how many Pods the partition lets go to the update revision.
	// +optional
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`
	// UpdateRevision is the name of the newest revision.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CurrentRevision is the name of the revision being replaced, or of the newest revision when none is being
	// replaced.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// CollisionCount is how many hash collisions revision names had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions say how scaling and the rollout go.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// LabelSelector is the selector as a string, for autoscalers.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// UnmarshalJSON reads any spec, even with invalid fields: no schema checks templates, or limits integers and
// percentages to 32 bits, and a list of CloneSets must not fail for a single item. The invalid fields are in
// Undecodable.
func (s *CloneSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain CloneSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s CloneSetSpec) MarshalJSON() ([]byte, error) {
	type plain CloneSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields: the schema accepts times unknown to Go, such as a time with a
// small t. The next write of the status corrects the fields.
func (s *CloneSetStatus) UnmarshalJSON(data []byte) error {
	type plain CloneSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
