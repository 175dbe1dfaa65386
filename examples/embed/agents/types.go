package agents

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

// Agent is a workload with a Pod on every fitting Node.
type Agent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is written by users. The API server does not check the template.
type Spec struct {
	// MaxUnavailable is how many of the Nodes that take part in an update may lack an available Pod. A value below 1
	// means 1.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// Partition is the number of Nodes whose Pods stay at the old revision.
	Partition int                    `json:"partition,omitempty"`
	Template  corev1.PodTemplateSpec `json:"template"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out values of a wrong type, because a single invalid Agent must not make the list of all
// Agents fail.
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
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Revision           string `json:"revision,omitempty"`
	// Nodes is the number of Nodes that should have a Pod. Available is how many of these Nodes have an available Pod,
	// and Updated how many have an updated Pod.
	Nodes     int32 `json:"nodes"`
	Available int32 `json:"available"`
	Updated   int32 `json:"updated"`
	// Conditions contains the condition Failed, and the condition Waiting with the reason why an update does not
	// continue.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AgentList is a list of Agents.
type AgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Agent `json:"items"`
}

// AddToScheme registers the kind.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Agent{}, &AgentList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyObject makes Agent a runtime.Object.
func (a *Agent) DeepCopyObject() runtime.Object {
	out := &Agent{TypeMeta: a.TypeMeta, ObjectMeta: *a.ObjectMeta.DeepCopy(), Spec: a.Spec, Status: a.Status}
	a.Spec.Template.DeepCopyInto(&out.Spec.Template)
	out.Status.Conditions = append([]metav1.Condition(nil), a.Status.Conditions...)
	return out
}

// DeepCopyObject makes AgentList a runtime.Object.
func (l *AgentList) DeepCopyObject() runtime.Object {
	out := &AgentList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Agent))
	}
	return out
}
