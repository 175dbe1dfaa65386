package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// UnitedDeployment divides Pods among subsets, such as zones or node pools, with a workload for each subset.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=uniteddeployments,singular=uniteddeployment,shortName=ud,scope=Namespaced
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=".status.updatedReplicas"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type UnitedDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   UnitedDeploymentSpec   `json:"spec,omitempty"`
	Status UnitedDeploymentStatus `json:"status,omitempty"`
}

// UnitedDeploymentList is a list of UnitedDeployments.
//
// +kubebuilder:object:root=true
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []UnitedDeployment `json:"items"`
}

// UnitedDeploymentSpec is the desired state of a UnitedDeployment.
type UnitedDeploymentSpec struct {
	// Replicas is the number of Pods in all subsets together, at least 0. The default is 1.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector selects the workloads and the Pods. The selector must not be empty, must match the labels of the
	// template, and cannot change.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template describes the workload that is created for each subset. Only a change of the template makes a new
	// revision.
	// +optional
	Template SubsetTemplate `json:"template,omitempty"`
	// Topology lists the subsets, and says what is done with Pods that a subset cannot run.
	// +optional
	Topology v1beta1.Topology `json:"topology,omitempty"`
	// UpdateStrategy says how many Pods of each subset stay at an older revision.
	// +optional
	UpdateStrategy v1beta1.UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of unused revisions to keep. The default is 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// SubsetTemplate contains the template of the workloads; exactly one template must be set.
type SubsetTemplate struct {
	// StatefulSetTemplate is the template of StatefulSets of Kubernetes.
	// +optional
	StatefulSetTemplate *v1beta1.StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`
	// AdvancedStatefulSetTemplate is the template of StatefulSets of the API group apps.kruise.io.
	// +optional
	AdvancedStatefulSetTemplate *v1beta1.AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`
	// CloneSetTemplate is the template of CloneSets.
	// +optional
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`
	// DeploymentTemplate is the template of Deployments.
	// +optional
	DeploymentTemplate *v1beta1.DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
}

// CloneSetTemplateSpec describes the CloneSets of subsets.
type CloneSetTemplateSpec struct {
	// CloneSets get the labels and annotations of this metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of CloneSets. Conversion also reads the fields updateStrategy and enablePVCReuse in the form of
	// v1beta1, as OpenKruise after 1.9.0 writes them.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec CloneSetSpec `json:"spec"`
}

// UnitedDeploymentStatus is the state of a UnitedDeployment as observed by the controller.
type UnitedDeploymentStatus struct {
	// ObservedGeneration is the generation of the spec to which the status refers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyReplicas is the number of ready Pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Replicas is the number of Pods that labelSelector selects: all Pods except reserved Pods (see reservedPods).
	Replicas int32 `json:"replicas"`
	// UpdatedReplicas is the number of Pods at the newest revision.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of ready Pods at the newest revision.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`
	// ReservedPods is the number of reserved Pods: those with a substitute in another subset.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// CollisionCount is the number of hash collisions that names of revisions have had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// CurrentRevision is the name of the revision that an update is replacing. Without an update in progress,
	// CurrentRevision is the name of the newest revision.
	CurrentRevision string `json:"currentRevision"`
	// SubsetReplicas contains the numbers of Pods that the subsets should have, by subset name.
	// +optional
	SubsetReplicas map[string]int32 `json:"subsetReplicas,omitempty"`
	// SubsetStatuses are the states of the subsets, in the order of the spec.
	// +optional
	SubsetStatuses []v1beta1.UnitedDeploymentSubsetStatus `json:"subsetStatuses,omitempty"`
	// Conditions describe the state of scaling and of the update.
	// +optional
	Conditions v1beta1.Conditions `json:"conditions,omitempty"`
	// UpdateStatus is the state of the update.
	// +optional
	UpdateStatus *UpdateStatus `json:"updateStatus,omitempty"`
	// LabelSelector is the selector in the form of a string, for autoscalers.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// UpdateStatus is the state of the update of a UnitedDeployment.
type UpdateStatus struct {
	// UpdatedRevision is the name of the newest revision.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// CurrentPartitions contains the numbers of Pods that stay at an older revision, by subset name.
	// +optional
	CurrentPartitions map[string]int32 `json:"currentPartitions,omitempty"`
}
