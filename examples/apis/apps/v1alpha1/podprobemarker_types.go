package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// PodProbeMarker probes containers of running Pods, and writes each result as a condition, labels and annotations of
// the Pod. The kind exists only in this version.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podprobemarkers,singular=podprobemarker,scope=Namespaced
type PodProbeMarker struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PodProbeMarkerSpec `json:"spec,omitempty"`
	// +optional
	Status PodProbeMarkerStatus `json:"status,omitempty"`
}

// PodProbeMarkerList is a list of PodProbeMarkers.
//
// +kubebuilder:object:root=true
type PodProbeMarkerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodProbeMarker `json:"items"`
}

// PodProbeMarkerSpec is the desired state of a PodProbeMarker.
type PodProbeMarkerSpec struct {
	// Selector selects Pods in the namespace. An empty selector selects no Pods. Selector is immutable.
	Selector *metav1.LabelSelector `json:"selector"`
	// Probes are the probes of containers of the Pods.
	// +patchMergeKey=name
	// +patchStrategy=merge
	Probes []PodContainerProbe `json:"probes" patchStrategy:"merge" patchMergeKey:"name"`

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// PodContainerProbe is a probe of a container.
type PodContainerProbe struct {
	// Name is unique in the PodProbeMarker.
	Name string `json:"name"`
	// ContainerName is the name of a container of the Pods.
	ContainerName string `json:"containerName"`
	// Probe has the handler and the timings. The thresholds and numbers of seconds are 1 by default, unlike those of the
	// kubelet.
	Probe ContainerProbeSpec `json:"probe"`
	// MarkerPolicy says which labels and annotations a Pod gets in which state of the probe.
	// +optional
	// +patchMergeKey=state
	// +patchStrategy=merge
	MarkerPolicy []ProbeMarkerPolicy `json:"markerPolicy,omitempty" patchStrategy:"merge" patchMergeKey:"state"`
	// PodConditionType is the type of the condition to write. If empty, no condition is written.
	// +optional
	PodConditionType string `json:"podConditionType,omitempty"`
}

// ContainerProbeSpec is a probe as in the spec of a Pod.
type ContainerProbeSpec struct {
	corev1.Probe `json:",inline"`
}

// ProbeMarkerPolicy says which labels and annotations a Pod gets while a probe succeeds, or while a probe fails.
type ProbeMarkerPolicy struct {
	// State is Succeeded or Failed.
	State ProbeState `json:"state"`
	// Labels are set while the probe is in the state State, and removed in the opposite state.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are set while the probe is in the state State, and removed in the opposite state.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ProbeState is the state of a probe.
type ProbeState string

const (
	// ProbeSucceeded means that the container passes the probe.
	ProbeSucceeded ProbeState = "Succeeded"
	// ProbeFailed means that the container fails the probe, or does not run.
	ProbeFailed ProbeState = "Failed"
	// ProbeUnknown means that no result about the present instance of the container exists yet.
	ProbeUnknown ProbeState = "Unknown"
)

// PodProbeMarkerStatus is the state of a PodProbeMarker as observed by the controller.
type PodProbeMarkerStatus struct {
	// ObservedGeneration is the generation of the spec for which MatchedPods was counted.
	ObservedGeneration int64 `json:"observedGeneration"`
	// MatchedPods is the number of selected Pods that are probed.
	// +optional
	MatchedPods int64 `json:"matchedPods,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *PodProbeMarkerSpec) UnmarshalJSON(data []byte) (err error) {
	type plain PodProbeMarkerSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s PodProbeMarkerSpec) MarshalJSON() ([]byte, error) {
	type plain PodProbeMarkerSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *PodProbeMarkerStatus) UnmarshalJSON(data []byte) error {
	type plain PodProbeMarkerStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
