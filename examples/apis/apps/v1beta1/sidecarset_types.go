package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// SidecarSet injects containers into new Pods, and upgrades them in running Pods.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=sidecarsets,singular=sidecarset,scope=Cluster
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=".status.matchedPods"
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=".status.updatedPods"
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=".status.readyPods"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type SidecarSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SidecarSetSpec   `json:"spec,omitempty"`
	Status SidecarSetStatus `json:"status,omitempty"`
}

// SidecarSetList is a list of SidecarSets.
//
// +kubebuilder:object:root=true
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SidecarSet `json:"items"`
}

// SidecarSetSpec is the desired state of a SidecarSet.
type SidecarSetSpec struct {
	// Selector selects Pods, and must not be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// NamespaceSelector selects namespaces by their labels. Unset selects all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// InitContainers are injected. Init containers with restartPolicy Always are sidecars, and are upgraded too.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	InitContainers []pub.SidecarContainer `json:"initContainers,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// Containers are injected.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Containers []pub.SidecarContainer `json:"containers,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// Volumes are for the sidecars to mount.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Volumes []corev1.Volume `json:"volumes,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// UpdateStrategy says how running Pods are upgraded.
	// +optional
	UpdateStrategy pub.SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// InjectionStrategy says how new Pods get sidecars.
	// +optional
	InjectionStrategy pub.SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`
	// ImagePullSecrets are added to the imagePullSecrets of Pods.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// RevisionHistoryLimit is how many revisions are kept, at least 1. Default 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// PatchPodMetadata adds annotations to Pods.
	// +optional
	PatchPodMetadata []pub.SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`
	// CustomVersion is a name for this version of the sidecars. The version's ControllerRevision has the name as a
	// label.
	// +optional
	CustomVersion string `json:"customVersion,omitempty"`

	// Undecodable lists the undecodable fields of the spec. Such a field is empty, and the object cannot be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// SidecarSetStatus is the state of a SidecarSet as observed by the controller.
type SidecarSetStatus = pub.SidecarSetStatus

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *SidecarSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain SidecarSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s SidecarSetSpec) MarshalJSON() ([]byte, error) {
	type plain SidecarSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}
