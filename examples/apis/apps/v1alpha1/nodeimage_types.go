package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// NodeImage lists the images that a Node should have. Only v1beta1 has the mode of pull secrets.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeimages,singular=nodeimage,scope=Cluster
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".status.desired"
// +kubebuilder:printcolumn:name="PULLING",type=integer,JSONPath=".status.pulling"
// +kubebuilder:printcolumn:name="SUCCEED",type=integer,JSONPath=".status.succeeded"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=".status.failed"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeImageSpec `json:"spec,omitempty"`
	// +optional
	Status v1beta1.NodeImageStatus `json:"status,omitzero"`
}

// NodeImageList is a list of NodeImages.
//
// +kubebuilder:object:root=true
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeImage `json:"items"`
}

// NodeImageSpec lists the images wanted on a Node.
type NodeImageSpec struct {
	// Images are the wanted images, by name without tag: "nginx" or "ghcr.io/team/app".
	// +optional
	Images map[string]ImageSpec `json:"images,omitempty"`
}

// ImageSpec lists the wanted tags of an image.
type ImageSpec struct {
	// PullSecrets are Secrets with credentials for the registry.
	// +optional
	PullSecrets []ReferenceObject `json:"pullSecrets,omitempty"`
	// SandboxConfig is passed to the container runtime.
	// +optional
	SandboxConfig *v1beta1.SandboxConfig `json:"sandboxConfig,omitempty"`
	// Tags are the wanted tags and digests, in the order of their names.
	Tags []v1beta1.ImageTagSpec `json:"tags"`
}

// ReferenceObject names a Secret.
type ReferenceObject struct {
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// Tags are the tags for which the Secret may be used. If empty, the Secret may be used for all tags of the image.
	// OpenKruise has no such field: in OpenKruise, every pull of the image may use the Secret.
	// +optional
	Tags []string `json:"tags,omitempty"`
}
