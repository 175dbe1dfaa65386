package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// ImagePullJob pulls an image on Nodes, before Pods need the image. The fields are the same in both versions.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=imagepulljobs,singular=imagepulljob,scope=Namespaced
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="ACTIVE",type=integer,JSONPath=".status.active"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=".status.failed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=".status.message"
type ImagePullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec v1beta1.ImagePullJobSpec `json:"spec,omitempty"`
	// +optional
	Status v1beta1.ImagePullJobStatus `json:"status,omitzero"`
}

// ImagePullJobList is a list of ImagePullJobs.
//
// +kubebuilder:object:root=true
type ImagePullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImagePullJob `json:"items"`
}
