package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// DaemonSet keeps a Pod on every Node that fits and rolls changes of its template out, in place where possible.
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

// DaemonSetSpec is what the user wants.
type DaemonSetSpec struct {
	// Selector selects the Pods. It must not be empty, must match the labels of the template, and cannot change.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is what Pods are made from. Only a change of this field makes a new revision. No defaults are written into it. Fields
	// unknown to this version of the API are kept.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
	// UpdateStrategy says how to replace or change Pods of an older revision.
	// +optional
	UpdateStrategy v1beta1.DaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`
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
}

// SurgingRollingUpdateType is Standard with maxSurge, as defaulting writes it. Deprecated by its API, and no type of v1beta1.
const SurgingRollingUpdateType v1beta1.RollingUpdateType = "Surging"

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
	Conditions []v1beta1.DaemonSetCondition `json:"conditions,omitempty"`
	// DaemonSetHash is the hash of the newest revision, as Pods have it in a label.
	// +optional
	DaemonSetHash string `json:"daemonSetHash,omitempty"`
}
