package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/decode"
)

// Fleet keeps a number of equal Pods.
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              FleetSpec `json:"spec"`
}

// FleetSpec is what its users write. No schema checks the template.
type FleetSpec struct {
	Replicas int                    `json:"replicas"`
	Template corev1.PodTemplateSpec `json:"template"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out what makes no sense: a list of all Fleets must not fail for one of them.
func (s *FleetSpec) UnmarshalJSON(data []byte) error {
	type plain FleetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	*s = FleetSpec(read)
	s.undecodable = problems
	return err
}

// MarshalJSON refuses what was not read in full. The operator writes no Fleets, but somebody may copy this.
func (s FleetSpec) MarshalJSON() ([]byte, error) {
	if len(s.undecodable) > 0 {
		return nil, s.undecodable[0]
	}
	type plain FleetSpec
	return json.Marshal(plain(s))
}

// FleetList is a list of Fleets.
type FleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Fleet `json:"items"`
}

// DeepCopyObject makes Fleet a runtime.Object.
func (f *Fleet) DeepCopyObject() runtime.Object {
	out := &Fleet{TypeMeta: f.TypeMeta, ObjectMeta: *f.ObjectMeta.DeepCopy(), Spec: f.Spec}
	f.Spec.Template.DeepCopyInto(&out.Spec.Template)
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
