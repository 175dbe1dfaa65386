package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/decode"
)

// ResourceDistribution keeps copies of a ConfigMap or Secret in many namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourcedistributions,singular=resourcedistribution,shortName=distributor,scope=Cluster
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=".status.failed"
type ResourceDistribution struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceDistributionSpec `json:"spec,omitempty"`
	// +optional
	Status ResourceDistributionStatus `json:"status,omitempty"`
}

// ResourceDistributionList is a list of ResourceDistributions.
//
// +kubebuilder:object:root=true
type ResourceDistributionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceDistribution `json:"items"`
}

// ResourceDistributionSpec is the desired state of a ResourceDistribution.
type ResourceDistributionSpec struct {
	// Resource is a whole ConfigMap or Secret of the core group. The apiVersion, kind and name cannot change, and the
	// namespace has no meaning.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	Resource runtime.RawExtension `json:"resource"`
	// Targets choose the namespaces of the copies.
	Targets ResourceDistributionTargets `json:"targets"`

	// Undecodable lists the undecodable fields of the spec. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// ResourceDistributionTargets choose namespaces: all, or the listed and the selected namespaces, but never excluded
// namespaces, kube-system or kube-public.
type ResourceDistributionTargets struct {
	// AllNamespaces chooses all namespaces. Default false.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`
	// ExcludedNamespaces get no copy, even if another field chooses them.
	// +optional
	ExcludedNamespaces ResourceDistributionTargetNamespaces `json:"excludedNamespaces,omitempty"`
	// IncludedNamespaces are chosen by name, whether or not they exist.
	// +optional
	IncludedNamespaces ResourceDistributionTargetNamespaces `json:"includedNamespaces,omitempty"`
	// NamespaceSelector chooses namespaces by label. An empty selector chooses none.
	// +optional
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// ResourceDistributionTargetNamespaces is a list of namespaces.
type ResourceDistributionTargetNamespaces struct {
	// List holds the namespaces.
	// +optional
	List []ResourceDistributionNamespace `json:"list,omitempty"`
}

// ResourceDistributionNamespace names a namespace.
type ResourceDistributionNamespace struct {
	// Name of the namespace.
	// +optional
	Name string `json:"name,omitempty"`
}

// ResourceDistributionStatus is the report of the controller.
type ResourceDistributionStatus struct {
	// Desired is how many namespaces should have a copy, including namespaces that do not exist.
	// +optional
	Desired int32 `json:"desired,omitempty"`
	// Succeeded is how many namespaces have the copy as the spec wants it.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// Failed is how many namespaces should have the copy as the spec wants it, but do not.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// ObservedGeneration is the generation of the spec reflected in the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions has an entry for each condition type, in the order of the types.
	// +optional
	Conditions []ResourceDistributionCondition `json:"conditions,omitempty"`
}

// ResourceDistributionConditionType names a condition: a way for copies to fail.
type ResourceDistributionConditionType string

const (
	// ResourceDistributionGetResourceFailed reports failures to read copies.
	ResourceDistributionGetResourceFailed ResourceDistributionConditionType = "GetResourceFailed"
	// ResourceDistributionCreateResourceFailed reports failures to create copies.
	ResourceDistributionCreateResourceFailed ResourceDistributionConditionType = "CreateResourceFailed"
	// ResourceDistributionUpdateResourceFailed reports failures to update copies.
	ResourceDistributionUpdateResourceFailed ResourceDistributionConditionType = "UpdateResourceFailed"
	// ResourceDistributionDeleteResourceFailed reports failures to delete copies from namespaces no longer chosen.
	ResourceDistributionDeleteResourceFailed ResourceDistributionConditionType = "DeleteResourceFailed"
	// ResourceDistributionConflictOccurred reports namespaces where something else has the copy's name.
	ResourceDistributionConflictOccurred ResourceDistributionConditionType = "ConflictOccurred"
	// ResourceDistributionNamespaceNotExists reports listed namespaces that do not exist, or are terminating.
	ResourceDistributionNamespaceNotExists ResourceDistributionConditionType = "NamespaceNotExists"
)

// ResourceDistributionSucceeded is the reason of conditions with status False.
const ResourceDistributionSucceeded = "Succeeded"

// ResourceDistributionCondition reports on a way for copies to fail.
type ResourceDistributionCondition struct {
	// Type is the way of failing.
	Type ResourceDistributionConditionType `json:"type"`
	// Status is True when copies fail in that way, else False.
	Status ResourceDistributionConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason says in words what has failed, or Succeeded if nothing has.
	// +optional
	Reason string `json:"reason,omitempty"`
	// FailedNamespaces lists the namespaces that the condition is about, by name.
	// +optional
	FailedNamespaces []string `json:"failedNamespaces,omitempty"`
}

// ResourceDistributionConditionStatus is True or False.
type ResourceDistributionConditionStatus string

const (
	// ResourceDistributionConditionTrue reports failures.
	ResourceDistributionConditionTrue ResourceDistributionConditionStatus = "True"
	// ResourceDistributionConditionFalse reports no failures.
	ResourceDistributionConditionFalse ResourceDistributionConditionStatus = "False"
)

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *ResourceDistributionSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ResourceDistributionSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s ResourceDistributionSpec) MarshalJSON() ([]byte, error) {
	type plain ResourceDistributionSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *ResourceDistributionStatus) UnmarshalJSON(data []byte) error {
	type plain ResourceDistributionStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
