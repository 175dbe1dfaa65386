package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceDistribution keeps copies of one ConfigMap or Secret in many namespaces.
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

// ResourceDistributionSpec is what the user wants.
type ResourceDistributionSpec struct {
	// Resource is a whole ConfigMap or Secret of the core group. Its apiVersion, kind and name cannot change, and its namespace has no meaning.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	Resource runtime.RawExtension `json:"resource"`
	// Targets are the namespaces that get a copy.
	Targets ResourceDistributionTargets `json:"targets"`
}

// ResourceDistributionTargets choose namespaces: all, or those that are listed or selected, but never those that are excluded, kube-system and
// kube-public.
type ResourceDistributionTargets struct {
	// AllNamespaces chooses all. Default false.
	// +optional
	AllNamespaces bool `json:"allNamespaces,omitempty"`
	// ExcludedNamespaces get no copy, whatever else chooses them.
	// +optional
	ExcludedNamespaces ResourceDistributionTargetNamespaces `json:"excludedNamespaces,omitempty"`
	// IncludedNamespaces are chosen by name, whether or not they exist.
	// +optional
	IncludedNamespaces ResourceDistributionTargetNamespaces `json:"includedNamespaces,omitempty"`
	// NamespaceLabelSelector chooses by label. An empty one chooses none.
	// +optional
	NamespaceLabelSelector metav1.LabelSelector `json:"namespaceLabelSelector,omitempty"`
}

// ResourceDistributionTargetNamespaces is a list of namespaces.
type ResourceDistributionTargetNamespaces struct {
	// List holds the namespaces.
	// +optional
	List []ResourceDistributionNamespace `json:"list,omitempty"`
}

// ResourceDistributionNamespace is one namespace.
type ResourceDistributionNamespace struct {
	// Name of the namespace.
	// +optional
	Name string `json:"name,omitempty"`
}

// ResourceDistributionStatus is what the controller reports.
type ResourceDistributionStatus struct {
	// Desired is how many namespaces are to have a copy, those among them that do not exist.
	// +optional
	Desired int32 `json:"desired,omitempty"`
	// Succeeded is how many of them have the copy as the spec wants it.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// Failed is the others.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// ObservedGeneration is that of the spec which the rest is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are one for each of the types, in their order.
	// +optional
	Conditions []ResourceDistributionCondition `json:"conditions,omitempty"`
}

// ResourceDistributionConditionType names a condition: a way in which copies fail.
type ResourceDistributionConditionType string

// ResourceDistributionCondition tells of one way in which copies fail.
type ResourceDistributionCondition struct {
	// Type is the way.
	Type ResourceDistributionConditionType `json:"type"`
	// Status is True when copies fail in that way, else False.
	Status ResourceDistributionConditionStatus `json:"status"`
	// LastTransitionTime is when the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason says what has failed, in words; Succeeded where nothing has.
	// +optional
	Reason string `json:"reason,omitempty"`
	// FailedNamespace are the namespaces that the condition is about, by name.
	// +optional
	FailedNamespace []string `json:"failedNamespace,omitempty"`
}

// ResourceDistributionConditionStatus is True or False.
type ResourceDistributionConditionStatus string
