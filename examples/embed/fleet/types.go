package fleet

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/decode"
)

// CRD is the CustomResourceDefinition, as YAML.
//
//go:embed crd.yaml
var CRD []byte

// GroupVersion is the kind's API group and version.
var GroupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// Fleet is a workload with a number of identical Pods.
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is written by users. The API server does not check the template.
type Spec struct {
	Replicas int `json:"replicas"`
	// MaxUnavailable is how many Pods may be unavailable because of an update. A value below 1 means 1.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// GracePeriodSeconds is how long a Pod is out of service before its in-place update starts, so that its clients can
	// disconnect.
	GracePeriodSeconds int                    `json:"gracePeriodSeconds,omitempty"`
	Template           corev1.PodTemplateSpec `json:"template"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out values of a wrong type, because a single invalid Fleet must not make the list of all
// Fleets fail.
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
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Revision           string             `json:"revision,omitempty"`
	Pods               int32              `json:"pods"`
	Available          int32              `json:"available"`
	Updated            int32              `json:"updated"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// FleetList is a list of Fleets.
type FleetList struct { //nolint:revive // The scheme expects the list type of a kind to have this name.
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Fleet `json:"items"`
}

// AddToScheme registers the kind.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Fleet{}, &FleetList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyObject makes Fleet a runtime.Object.
func (f *Fleet) DeepCopyObject() runtime.Object {
	out := &Fleet{TypeMeta: f.TypeMeta, ObjectMeta: *f.ObjectMeta.DeepCopy(), Spec: f.Spec, Status: f.Status}
	f.Spec.Template.DeepCopyInto(&out.Spec.Template)
	out.Status.Conditions = append([]metav1.Condition(nil), f.Status.Conditions...)
	return out
}

// DeepCopyObject makes FleetList a runtime.Object.
func (l *FleetList) DeepCopyObject() runtime.Object {
	out := &FleetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Fleet))
	}
	return out
}
