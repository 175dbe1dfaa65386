package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// NodePodProbe lists the probes that the agent of a Node runs, and the results. The object has the Node's name. The
// controller writes the spec, and the agent writes the status. The kind exists only in this version.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodepodprobes,singular=nodepodprobe,scope=Cluster
type NodePodProbe struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodePodProbeSpec `json:"spec,omitempty"`
	// +optional
	Status NodePodProbeStatus `json:"status,omitempty"`
}

// NodePodProbeList is a list of NodePodProbes.
//
// +kubebuilder:object:root=true
type NodePodProbeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodePodProbe `json:"items"`
}

// NodePodProbeSpec lists probes.
type NodePodProbeSpec struct {
	// PodProbes are the probes, by Pod.
	// +optional
	// +patchMergeKey=uid
	// +patchStrategy=merge
	PodProbes []PodProbe `json:"podProbes,omitempty" patchStrategy:"merge" patchMergeKey:"uid"`

	// Undecodable lists the fields of the spec that could not be decoded. These fields are unset, and the object cannot
	// be encoded.
	Undecodable []decode.Problem `json:"-"`
}

// PodProbe lists the probes of a Pod.
type PodProbe struct {
	// Name is the name of the Pod.
	Name string `json:"name"`
	// Namespace is the namespace of the Pod.
	Namespace string `json:"namespace"`
	// UID is the UID of the Pod.
	UID string `json:"uid"`
	// IP is the address of the Pod; empty if the Pod has no address yet.
	IP string `json:"IP"`
	// Probes are the probes of the Pod's containers.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Probes []ContainerProbe `json:"probes,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// ContainerProbe is a probe of a container.
type ContainerProbe struct {
	// Name is unique in the Pod: the name of the PodProbeMarker, a "#", and the name of the probe.
	Name string `json:"name"`
	// ContainerName is the name of the container.
	ContainerName string `json:"containerName"`
	// Probe has the handler and the timings. Ports are numbers.
	Probe ContainerProbeSpec `json:"probe"`
}

// NodePodProbeStatus lists the results of probes, as written by the agent of the Node. Readers must not trust the
// status, because a stolen Node writes any status.
type NodePodProbeStatus struct {
	// PodProbeStatuses are the results, by Pod.
	// +optional
	// +patchMergeKey=uid
	// +patchStrategy=merge
	PodProbeStatuses []PodProbeStatus `json:"podProbeStatuses,omitempty" patchStrategy:"merge" patchMergeKey:"uid"`
}

// PodProbeStatus lists the results of the probes of a Pod.
type PodProbeStatus struct {
	// Name is the name of the Pod.
	Name string `json:"name"`
	// Namespace is the namespace of the Pod.
	Namespace string `json:"namespace"`
	// UID is the UID of the Pod.
	UID string `json:"uid"`
	// ProbeStates are the results.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	ProbeStates []ContainerProbeState `json:"probeStates,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// ContainerProbeState is the result of a probe.
type ContainerProbeState struct {
	// Name is the name of the probe in the spec.
	Name string `json:"name"`
	// State is Succeeded, Failed or Unknown.
	State ProbeState `json:"state"`
	// LastProbeTime is when the probe last ran.
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitzero"`
	// LastTransitionTime is when State last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Message is what the container has answered, or why the probe has failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// UnmarshalJSON decodes a spec even if fields are invalid, and lists the invalid fields in Undecodable.
func (s *NodePodProbeSpec) UnmarshalJSON(data []byte) (err error) {
	type plain NodePodProbeSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s NodePodProbeSpec) MarshalJSON() ([]byte, error) {
	type plain NodePodProbeSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON leaves out invalid fields of a status. The next write of the status corrects the fields.
func (s *NodePodProbeStatus) UnmarshalJSON(data []byte) error {
	type plain NodePodProbeStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
