package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// SidecarSet injects containers into Pods when they are created, and upgrades them in Pods that run.
//
// +kubebuilder:object:root=true
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

// SidecarSetSpec is what the user wants.
type SidecarSetSpec struct {
	// Selector selects Pods. It must not be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Namespace restricts the SidecarSet to one namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// NamespaceSelector selects namespaces by their labels. Unset selects all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// InitContainers are injected. Those with restartPolicy Always are sidecars that are upgraded, too.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	InitContainers []pub.SidecarContainer `json:"initContainers,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// Containers are injected.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Containers []pub.SidecarContainer `json:"containers,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// Volumes that the sidecars may mount.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Volumes []corev1.Volume `json:"volumes,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// UpdateStrategy says how Pods that run are upgraded.
	// +optional
	UpdateStrategy pub.SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// InjectionStrategy says what new Pods get.
	// +optional
	InjectionStrategy pub.SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`
	// ImagePullSecrets are added to the Pods'.
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
	// Strategy is where OpenKruise 0.1 had the updateStrategy. It has no effect and is not stored: admission warns of it, where the API server
	// would refuse it from clients that ask for strict validation and could not say what to write instead.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Strategy *runtime.RawExtension `json:"strategy,omitempty"`
}

// SidecarSetStatus is what the controller observed.
type SidecarSetStatus = pub.SidecarSetStatus
