package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// ImageListPullJob pulls several images on Nodes, each image by a separate ImagePullJob. The fields are the same in both
// versions.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=imagelistpulljobs,singular=imagelistpulljob,scope=Namespaced
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="SUCCEEDED",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="COMPLETED",type=integer,JSONPath=".status.completed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type ImageListPullJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec v1beta1.ImageListPullJobSpec `json:"spec,omitempty"`
	// +optional
	Status v1beta1.ImageListPullJobStatus `json:"status,omitzero"`
}

// ImageListPullJobList is a list of ImageListPullJobs.
//
// +kubebuilder:object:root=true
type ImageListPullJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImageListPullJob `json:"items"`
}
