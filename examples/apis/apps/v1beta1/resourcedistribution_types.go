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
	// Resource is a whole ConfigMap or Secret of the core group. The apiVersion, kind and name are immutable, and a
	// namespace has no effect.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	Resource runtime.RawExtension `json:"resource"`
	// Targets selects the namespaces that get a copy.
	Targets ResourceDistributionTargets `json:"targets"`

	// Undecodable lists the fields of the spec that could not be decoded. Such fields are unset.
	Undecodable []decode.Problem `json:"-"`
}

// ResourceDistributionTargets selects namespaces: all namespaces, or those that are listed or selected by label.
// Excluded namespaces, kube-system and kube-public are never selected.
type ResourceDistributionTargets struct {
	// AllNamespaces selects all namespaces. The default is false.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`
	// ExcludedNamespaces lists namespaces that get no copy, even if another field selects them.
	// +optional
	ExcludedNamespaces ResourceDistributionTargetNamespaces `json:"excludedNamespaces,omitempty"`
	// IncludedNamespaces lists namespaces by name, whether they exist or not.
	// +optional
	IncludedNamespaces ResourceDistributionTargetNamespaces `json:"includedNamespaces,omitempty"`
	// NamespaceSelector selects namespaces by label. An empty selector selects no namespaces.
	// +optional
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// ResourceDistributionTargetNamespaces is a list of namespaces.
type ResourceDistributionTargetNamespaces struct {
	// List contains the namespaces.
	// +optional
	List []ResourceDistributionNamespace `json:"list,omitempty"`
}

// ResourceDistributionNamespace names a namespace.
type ResourceDistributionNamespace struct {
	// Name is the name of the namespace.
	// +optional
	Name string `json:"name,omitempty"`
}

// ResourceDistributionStatus is the report of the controller.
type ResourceDistributionStatus struct {
	// Desired is the number of namespaces that should have a copy, including namespaces that do not exist.
	// +optional
	Desired int32 `json:"desired,omitempty"`
	// Succeeded is the number of namespaces whose copy matches the spec.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// Failed is the number of namespaces that should have a copy that matches the spec, but have none.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// ObservedGeneration is the generation of the spec to which the status refers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions contains each condition type, in a fixed order.
	// +optional
	Conditions []ResourceDistributionCondition `json:"conditions,omitempty"`
}

// ResourceDistributionConditionType is the type of a condition: a kind of failure of copies.
type ResourceDistributionConditionType string

const (
	// ResourceDistributionGetResourceFailed reports copies that could not be read.
	ResourceDistributionGetResourceFailed ResourceDistributionConditionType = "GetResourceFailed"
	// ResourceDistributionCreateResourceFailed reports copies that could not be created.
	ResourceDistributionCreateResourceFailed ResourceDistributionConditionType = "CreateResourceFailed"
	// ResourceDistributionUpdateResourceFailed reports copies that could not be updated.
	ResourceDistributionUpdateResourceFailed ResourceDistributionConditionType = "UpdateResourceFailed"
	// ResourceDistributionDeleteResourceFailed reports copies that could not be deleted from namespaces that are no
	// longer selected.
	ResourceDistributionDeleteResourceFailed ResourceDistributionConditionType = "DeleteResourceFailed"
	// ResourceDistributionConflictOccurred reports namespaces in which an object that is not a copy has the copy's
	// name.
	ResourceDistributionConflictOccurred ResourceDistributionConditionType = "ConflictOccurred"
	// ResourceDistributionNamespaceNotExists reports listed namespaces that do not exist, or are being deleted.
	ResourceDistributionNamespaceNotExists ResourceDistributionConditionType = "NamespaceNotExists"
)

// ResourceDistributionSucceeded is the reason of conditions with status False.
const ResourceDistributionSucceeded = "Succeeded"

// ResourceDistributionCondition reports failures of one kind.
type ResourceDistributionCondition struct {
	// Type is the kind of failure.
	Type ResourceDistributionConditionType `json:"type"`
	// Status is True if there are failures of this kind, otherwise False.
	Status ResourceDistributionConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason describes the failure; if there is none, Reason is Succeeded.
	// +optional
	Reason string `json:"reason,omitempty"`
	// FailedNamespaces lists the namespaces in which there are failures of this kind.
	// +optional
	FailedNamespaces []string `json:"failedNamespaces,omitempty"`
}

// ResourceDistributionConditionStatus is True or False.
type ResourceDistributionConditionStatus string

const (
	// ResourceDistributionConditionTrue means that there are failures.
	ResourceDistributionConditionTrue ResourceDistributionConditionStatus = "True"
	// ResourceDistributionConditionFalse means that there are no failures.
	ResourceDistributionConditionFalse ResourceDistributionConditionStatus = "False"
)

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *ResourceDistributionSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ResourceDistributionSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s ResourceDistributionSpec) MarshalJSON() ([]byte, error) {
	type plain ResourceDistributionSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *ResourceDistributionStatus) UnmarshalJSON(data []byte) error {
	type plain ResourceDistributionStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
