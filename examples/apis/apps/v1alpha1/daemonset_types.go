package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// DaemonSet keeps a Pod on every fitting Node, and updates the Pods in place where possible when the template changes.
//
// +kubebuilder:object:root=true
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
	// UpdateStrategy says how Pods of an older revision are updated.
	// +optional
	UpdateStrategy v1beta1.DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`
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
}

// SurgingRollingUpdateType has the meaning of Standard with maxSurge, and defaulting replaces it accordingly. The API
// deprecates the type, and v1beta1 does not have it.
const SurgingRollingUpdateType v1beta1.RollingUpdateType = "Surging"

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
	Conditions v1beta1.Conditions `json:"conditions,omitempty"`
	// DaemonSetHash is the hash of the newest revision, as in the label of the Pods.
	// +optional
	DaemonSetHash string `json:"daemonSetHash,omitempty"`
}
