package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// StatefulSet keeps numbered Pods running, each with its own name and claims, and rolls changes of the template out in
// place where possible.
//
// +kubebuilder:object:root=true
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

	Spec StatefulSetSpec `json:"spec,omitempty"`
	// Status is the status of v1beta1, with more fields than OpenKruise shows in v1alpha1: without the fields in the
	// schema, the API server would drop them whenever somebody writes the object in v1alpha1.
	Status v1beta1.StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSets.
//
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []StatefulSet `json:"items"`
}

// StatefulSetSpec is the desired state of a StatefulSet. All fields mean the same as in v1beta1, which has more of
// them.
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
	// VolumeClaimTemplates are the claims of every Pod, named TEMPLATE-STATEFULSET-ORDINAL. A change makes no revision.
	// Unknown fields are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// ServiceName names the Service that gives Pods their DNS names, and is the subdomain of Pods. The name cannot
	// change.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// PodManagementPolicy is OrderedReady (one Pod after another) or Parallel, and cannot change. Default OrderedReady.
	// +optional
	PodManagementPolicy appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`
	// UpdateStrategy says how to replace or change Pods of an older revision.
	// +optional
	UpdateStrategy v1beta1.StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is how many unused revisions are kept. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}
