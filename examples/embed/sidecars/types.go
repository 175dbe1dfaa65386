package sidecars

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/decode"
)

// CRD is the CustomResourceDefinition, and Webhook the webhook configuration, both as YAML.
var (
	//go:embed crd.yaml
	CRD []byte
	//go:embed webhook.yaml
	Webhook []byte
)

// GroupVersion is the kind's API group and version.
var GroupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// Sidecar is a container that is injected into all Pods that a label selector matches, in all namespaces.
type Sidecar struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is written by users. The API server does not check the container.
type Spec struct {
	// Selector selects Pods. An empty selector selects no Pods.
	Selector metav1.LabelSelector `json:"selector"`
	// Container is the container to inject, as a native sidecar. If the container's image is changed, running Pods are
	// upgraded in place; any other change affects only new Pods.
	Container corev1.Container `json:"container"`
	Volumes   []corev1.Volume  `json:"volumes,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable because of an upgrade. A value below 1 means 1.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out values of a wrong type, because a single invalid Sidecar must not make the list of all
// Sidecars fail.
func (s *Spec) UnmarshalJSON(data []byte) (err error) {
	type plain Spec
	s.undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if parts of the spec could not be decoded, because writing the spec would lose these
// parts. This operator never writes specs, but operators with a copy of this code may.
func (s Spec) MarshalJSON() ([]byte, error) {
	type plain Spec
	return decode.Marshal(plain(s), s.undecodable)
}

// Status is written by the operator.
type Status struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Pods is the number of Pods with the container. Updated is the number of these Pods with the newest
	// container, and Ready the number of these Pods that are ready.
	Pods    int32 `json:"pods"`
	Updated int32 `json:"updated"`
	Ready   int32 `json:"ready"`
	// Conditions contains the condition Failed, the condition Blocked, which means that Pods must be recreated to get
	// the newest container, and the condition Waiting with the reason why an upgrade does not continue.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SidecarList is a list of Sidecars.
type SidecarList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Sidecar `json:"items"`
}

// AddToScheme registers the kind.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Sidecar{}, &SidecarList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyObject makes Sidecar a runtime.Object.
func (s *Sidecar) DeepCopyObject() runtime.Object {
	out := &Sidecar{TypeMeta: s.TypeMeta, ObjectMeta: *s.ObjectMeta.DeepCopy(), Spec: s.Spec, Status: s.Status}
	s.Spec.Selector.DeepCopyInto(&out.Spec.Selector)
	s.Spec.Container.DeepCopyInto(&out.Spec.Container)
	out.Spec.Volumes = nil
	for i := range s.Spec.Volumes {
		out.Spec.Volumes = append(out.Spec.Volumes, *s.Spec.Volumes[i].DeepCopy())
	}
	out.Status.Conditions = append([]metav1.Condition(nil), s.Status.Conditions...)
	return out
}

// DeepCopyObject makes SidecarList a runtime.Object.
func (l *SidecarList) DeepCopyObject() runtime.Object {
	out := &SidecarList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Sidecar))
	}
	return out
}
