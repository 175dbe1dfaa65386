package nodejobs

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/decode"
)

// CRD is the CustomResourceDefinition, as YAML.
//
//go:embed crd.yaml
var CRD []byte

// GroupVersion is the kind's API group and version.
var GroupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// NodeJob runs a program once on every fitting Node.
type NodeJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is written by users. The API server does not check the template.
type Spec struct {
	// Parallelism is on how many Nodes the program may run at the same time: a number, or a percentage of the Nodes.
	// Nil means no limit.
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	Paused      bool                `json:"paused,omitempty"`
	// DeadlineSeconds is the time after its start at which the job fails, and TTLSeconds the time after its end at
	// which it is deleted.
	DeadlineSeconds *int64                 `json:"deadlineSeconds,omitempty"`
	TTLSeconds      *int64                 `json:"ttlSeconds,omitempty"`
	Template        corev1.PodTemplateSpec `json:"template"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out values of a wrong type, because a single invalid NodeJob must not make the list of all
// NodeJobs fail.
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
	ObservedGeneration int64            `json:"observedGeneration,omitempty"`
	State              completion.State `json:"state,omitempty"`
	Started            *metav1.Time     `json:"started,omitempty"`
	Ended              *metav1.Time     `json:"ended,omitempty"`
	// Nodes is the number of Nodes on which the program must run, and Done the number of these Nodes whose Pod has
	// ended. Active and Failed are numbers of Pods.
	Nodes  int32 `json:"nodes"`
	Done   int32 `json:"done"`
	Active int32 `json:"active"`
	Failed int32 `json:"failed"`
	// Conditions contains the condition Waiting with the reason why the job does not continue or has failed, and the
	// condition Failing with the error of a request that the operator could not make.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopy returns a deep copy of the status.
func (s *Status) DeepCopy() *Status {
	out := *s
	out.Started, out.Ended = s.Started.DeepCopy(), s.Ended.DeepCopy()
	out.Conditions = append([]metav1.Condition(nil), s.Conditions...)
	return &out
}

// NodeJobList is a list of NodeJobs.
type NodeJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []NodeJob `json:"items"`
}

// AddToScheme registers the kind.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &NodeJob{}, &NodeJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyObject makes NodeJob a runtime.Object.
func (j *NodeJob) DeepCopyObject() runtime.Object {
	out := &NodeJob{TypeMeta: j.TypeMeta, ObjectMeta: *j.ObjectMeta.DeepCopy(), Spec: j.Spec, Status: *j.Status.DeepCopy()}
	j.Spec.Template.DeepCopyInto(&out.Spec.Template)
	return out
}

// DeepCopyObject makes NodeJobList a runtime.Object.
func (l *NodeJobList) DeepCopyObject() runtime.Object {
	out := &NodeJobList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*NodeJob))
	}
	return out
}
