package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// BroadcastJob runs a Pod on every fitting Node until the Pod ends. The fields are the same in both versions.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=broadcastjobs,singular=broadcastjob,shortName=bcj,scope=Namespaced
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=".status.active"
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=".status.failed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type BroadcastJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec v1beta1.BroadcastJobSpec `json:"spec,omitempty"`
	// +optional
	Status v1beta1.BroadcastJobStatus `json:"status,omitempty"`
}

// BroadcastJobList is a list of BroadcastJobs.
//
// +kubebuilder:object:root=true
type BroadcastJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BroadcastJob `json:"items"`
}
