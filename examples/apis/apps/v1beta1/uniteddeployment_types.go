package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// UnitedDeployment divides Pods among subsets, such as zones or node pools, with a workload for each subset.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Topology Topology `json:"topology,omitempty"`
	// UpdateStrategy says how many Pods of each subset stay at an older revision.
	// +optional
	UpdateStrategy UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of unused revisions to keep. The default is 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// SubsetTemplate contains the template of the workloads; exactly one template must be set.
type SubsetTemplate struct {
	// StatefulSetTemplate is the template of StatefulSets of Kubernetes.
	// +optional
	StatefulSetTemplate *StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`
	// AdvancedStatefulSetTemplate is the template of StatefulSets of the API group apps.kruise.io.
	// +optional
	AdvancedStatefulSetTemplate *AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`
	// CloneSetTemplate is the template of CloneSets.
	// +optional
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`
	// DeploymentTemplate is the template of Deployments.
	// +optional
	DeploymentTemplate *DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
}

// StatefulSetTemplateSpec describes the StatefulSets of subsets. The fields replicas and
// updateStrategy.rollingUpdate.partition must be unset. Unknown fields are kept.
type StatefulSetTemplateSpec struct {
	// StatefulSets get the labels and annotations of this metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of StatefulSets.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec appsv1.StatefulSetSpec `json:"spec"`
}

// AdvancedStatefulSetTemplateSpec describes the subsets' StatefulSets of the API group apps.kruise.io. The fields
// replicas and updateStrategy.rollingUpdate.partition must be unset.
type AdvancedStatefulSetTemplateSpec struct {
	// StatefulSets get the labels and annotations of this metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of StatefulSets.
	Spec StatefulSetSpec `json:"spec"`
}

// CloneSetTemplateSpec describes the CloneSets of subsets.
type CloneSetTemplateSpec struct {
	// CloneSets get the labels and annotations of this metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of CloneSets.
	Spec CloneSetSpec `json:"spec"`
}

// DeploymentTemplateSpec describes the Deployments of subsets. The field replicas must be unset. Unknown fields are
// kept.
type DeploymentTemplateSpec struct {
	// Deployments get the labels and annotations of this metadata.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the spec of Deployments.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Spec appsv1.DeploymentSpec `json:"spec"`
}

// Topology lists the subsets of a UnitedDeployment.
type Topology struct {
	// Subsets lists the parts of the UnitedDeployment, in the order of preference. No two subsets have the same name.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Subsets []Subset `json:"subsets,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// ScheduleStrategy says what is done with Pods that no Node of their subset can run.
	// +optional
	ScheduleStrategy UnitedDeploymentScheduleStrategy `json:"scheduleStrategy,omitempty"`
}

// Subset is a part of a UnitedDeployment, with a workload of its own.
type Subset struct {
	// Name is the name of the subset, a DNS label.
	Name string `json:"name"`
	// NodeSelectorTerm selects the Nodes of the subset. The field cannot change while the subset exists.
	// +optional
	NodeSelectorTerm corev1.NodeSelectorTerm `json:"nodeSelectorTerm,omitempty"`
	// Tolerations are added to the tolerations of the template. The field cannot change while the subset exists.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Replicas is the share of the subset: an integer, or a whole percentage of spec.replicas, rounded to the nearest
	// number. The subsets without a share divide the remaining replicas evenly. If a subset has a share, no subset may
	// have a minReplicas or maxReplicas, and the type must not be Adaptive.
	// +optional
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// MinReplicas is the smallest number of Pods: an integer or a whole percentage. Subsets get their minReplicas in
	// the order of the list. If any subset has a minReplicas or maxReplicas, the default is 0.
	// +optional
	MinReplicas *intstr.IntOrString `json:"minReplicas,omitempty"`
	// MaxReplicas is the largest number of Pods: an integer or a whole percentage. Subsets are filled up to their
	// maxReplicas in the order of the list. If unset, there is no limit; at least one subset must have no limit.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`
	// Patch is a strategic merge patch that is applied to the subset's Pod template.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Patch runtime.RawExtension `json:"patch,omitzero"`
}

// UnitedDeploymentScheduleStrategyType says whether Pods that cannot be scheduled are recreated in later subsets.
//
// +kubebuilder:validation:Enum=Adaptive;Fixed;""
type UnitedDeploymentScheduleStrategyType string

const (
	// AdaptiveSchedule means that Pods that cannot be scheduled in a subset are recreated in later subsets.
	AdaptiveSchedule UnitedDeploymentScheduleStrategyType = "Adaptive"
	// FixedSchedule means that Pods that cannot be scheduled stay pending.
	FixedSchedule UnitedDeploymentScheduleStrategyType = "Fixed"
)

// UnitedDeploymentScheduleStrategy says what is done with Pods that cannot be scheduled.
type UnitedDeploymentScheduleStrategy struct {
	// Type is Adaptive or Fixed. The default is Fixed.
	// +optional
	Type UnitedDeploymentScheduleStrategyType `json:"type,omitempty"`
	// Adaptive contains the settings of the type Adaptive.
	// +optional
	Adaptive *AdaptiveUnitedDeploymentStrategy `json:"adaptive,omitempty"`
}

// AdaptiveUnitedDeploymentStrategy says when Pods are recreated in later subsets, and for how long a subset gets no
// Pods.
type AdaptiveUnitedDeploymentStrategy struct {
	// RescheduleCriticalSeconds is for how many seconds a Pod may be unschedulable before the Pod is recreated in
	// another subset. The default is 30.
	// +optional
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
	// UnschedulableDuration is for how many seconds a subset gets no further Pods after a Pod of the subset could not
	// be scheduled in time. With reserveUnschedulablePods, UnschedulableDuration is for how many seconds a Pod must
	// be ready before the Pod's substitute is deleted. The default is 300.
	// +optional
	UnschedulableDuration *int32 `json:"unschedulableDuration,omitempty"`
	// If ReserveUnschedulablePods is true, pending Pods are kept in their subset, and have substitutes in other subsets
	// until the pending Pods are ready. The field may be set only for Deployments and CloneSets. The default is false.
	// +optional
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// UnitedDeploymentUpdateStrategyType says who decides how an update proceeds.
//
// +kubebuilder:validation:Enum=Manual;""
type UnitedDeploymentUpdateStrategyType string

// ManualUpdateStrategyType means that the user decides how an update proceeds, by a partition for each subset.
const ManualUpdateStrategyType UnitedDeploymentUpdateStrategyType = "Manual"

// UnitedDeploymentUpdateStrategy says how many Pods stay at an older revision.
type UnitedDeploymentUpdateStrategy struct {
	// Type is Manual. The default is Manual.
	// +optional
	Type UnitedDeploymentUpdateStrategyType `json:"type,omitempty"`
	// ManualUpdate contains the settings of the type Manual.
	// +optional
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`
}

// ManualUpdate says how many Pods of each subset stay at an older revision.
type ManualUpdate struct {
	// Partitions contains numbers of Pods that stay at an older revision, by subset name. The default is 0. Deployments
	// have no partition.
	// +optional
	Partitions map[string]int32 `json:"partitions,omitempty"`
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
	// UpdatedRevision is the name of the newest revision.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// SubsetStatuses are the states of the subsets, in the order of the spec.
	// +optional
	SubsetStatuses []UnitedDeploymentSubsetStatus `json:"subsetStatuses,omitempty"`
	// Conditions describe the state of scaling and of the update.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
	// LabelSelector is the selector in the form of a string, for autoscalers.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// UnitedDeploymentSubsetStatus is the state of a subset.
type UnitedDeploymentSubsetStatus struct {
	// Name is the name of the subset.
	// +optional
	Name string `json:"name,omitempty"`
	// Replicas is the number of Pods that the subset should have.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is the number of ready Pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Partition is the number of Pods that should stay at an older revision.
	// +optional
	Partition int32 `json:"partition,omitempty"`
	// ReservedPods is the number of reserved Pods: those with a substitute in another subset.
	// +optional
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// Conditions say whether Pods can be scheduled, and why the subset has fewer Pods than it should have.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *UnitedDeploymentSpec) UnmarshalJSON(data []byte) (err error) {
	type plain UnitedDeploymentSpec
	if s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec"); err != nil {
		return err
	}
	inner := func(name string, problems []decode.Problem) {
		for _, problem := range problems {
			s.Undecodable = append(s.Undecodable, problem.In("spec.template."+name))
		}
	}
	if t := s.Template.AdvancedStatefulSetTemplate; t != nil {
		inner("advancedStatefulSetTemplate", t.Spec.Undecodable)
	}
	if t := s.Template.CloneSetTemplate; t != nil {
		inner("cloneSetTemplate", t.Spec.Undecodable)
	}
	return nil
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s UnitedDeploymentSpec) MarshalJSON() ([]byte, error) {
	type plain UnitedDeploymentSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *UnitedDeploymentStatus) UnmarshalJSON(data []byte) error {
	type plain UnitedDeploymentStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
