package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceDistribution keeps copies of a ConfigMap or Secret in many namespaces.
//
// +kubebuilder:object:root=true
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
	// NamespaceLabelSelector chooses namespaces by label. An empty selector chooses none.
	// +optional
	NamespaceLabelSelector metav1.LabelSelector `json:"namespaceLabelSelector,omitempty"`
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
	// FailedNamespace lists the namespaces that the condition is about, by name.
	// +optional
	FailedNamespace []string `json:"failedNamespace,omitempty"`
}

// ResourceDistributionConditionStatus is True or False.
type ResourceDistributionConditionStatus string
