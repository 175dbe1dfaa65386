package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// SidecarSet injects containers into new Pods, and upgrades the injected containers in running Pods.
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

// SidecarSetSpec is the desired state of a SidecarSet.
type SidecarSetSpec struct {
	// Selector selects Pods by label, and must not be empty.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Namespace restricts the SidecarSet to the Pods of a single namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// NamespaceSelector selects namespaces by their labels. If unset, all namespaces are selected.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// InitContainers are the init containers to inject. Init containers with the restartPolicy Always are native
	// sidecars, and are upgraded as well.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	InitContainers []pub.SidecarContainer `json:"initContainers,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// Containers are the containers to inject.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Containers []pub.SidecarContainer `json:"containers,omitempty" patchMergeKey:"name" patchStrategy:"merge"`
	// Volumes are the volumes that the sidecars mount.
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
	// RevisionHistoryLimit is the number of revisions to keep, at least 1. The default is 10.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// PatchPodMetadata adds annotations to Pods.
	// +optional
	PatchPodMetadata []pub.SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`
	// Strategy is the former name of updateStrategy, in OpenKruise 0.1. The field has no effect and is not stored:
	// admission returns a warning that says what to write instead. If the schema did not have the field, the API server
	// would refuse the object for clients with strict validation, without this advice.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Strategy *runtime.RawExtension `json:"strategy,omitempty"`
}

// SidecarSetStatus is the state of a SidecarSet as observed by the controller.
type SidecarSetStatus = pub.SidecarSetStatus
