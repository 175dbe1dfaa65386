package shards

import (
	_ "embed"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
)

// Names of the operator's own: the kit has none.
const (
	group         = "shards.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
)

// historyLimit is how many revisions without Pods are kept.
const historyLimit = 10

// InvalidSpec is the reason for leaving a Shards alone.
const InvalidSpec reason.Code = "InvalidSpec"

// CRD is the CustomResourceDefinition, and Webhook the ValidatingWebhookConfiguration, as YAML. The Service of the
// webhook is in the namespace shards.
var (
	//go:embed crd.yaml
	CRD []byte
	//go:embed webhook.yaml
	Webhook []byte
)

// GroupVersion of the kind.
var GroupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// Shards keeps Pods with ordinals and volumes: NAME-0, NAME-1 and so on.
type Shards struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is written by users. No schema checks the template.
type Spec struct {
	Replicas int `json:"replicas"`
	// MaxUnavailable is how many of the Pods may be out of service for the operator, for evictions and for users together.
	// 0 stands for 1.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// Storage is the size of a Pod's volume. A larger size enlarges the volumes.
	Storage      resource.Quantity      `json:"storage"`
	StorageClass *string                `json:"storageClass,omitempty"`
	Template     corev1.PodTemplateSpec `json:"template"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out invalid values: a list of all Shards must not fail for a single Shards.
func (s *Spec) UnmarshalJSON(data []byte) (err error) {
	type plain Spec
	s.undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses an incompletely read spec. The operator writes no specs, but somebody may copy the code.
func (s Spec) MarshalJSON() ([]byte, error) {
	type plain Spec
	return decode.Marshal(plain(s), s.undecodable)
}

// Status is written by the operator, and its budget by the webhook too.
type Status struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Revision           string `json:"revision,omitempty"`
	CurrentRevision    string `json:"currentRevision,omitempty"`
	// Pods counts active Pods, Available and Updated count the Pods among them.
	Pods      int32 `json:"pods"`
	Available int32 `json:"available"`
	Updated   int32 `json:"updated"`
	// Budget says how many Pods may go.
	Budget disruption.Ledger `json:"budget"`
	// Conditions are Failed, and Waiting: why nothing more happens now.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopy copies the status.
func (s *Status) DeepCopy() *Status {
	out := *s
	s.Budget.DeepCopyInto(&out.Budget)
	out.Conditions = append([]metav1.Condition(nil), s.Conditions...)
	return &out
}

func (s *Shards) maxUnavailable() int { return max(s.Spec.MaxUnavailable, 1) }

func (s *Shards) ordinals() (ordinals.Set, error) {
	return ordinals.Of(ordinals.Paths{Replicas: "spec.replicas"}, 0, s.Spec.Replicas)
}

// problems are the faults of a spec.
func (r *reconciler) problems(s *Shards) reason.List {
	if problems := decode.Reasons(s.Spec.undecodable); problems != nil {
		return problems // the rest would only complain of missing values
	}
	_, err := s.ordinals()
	problems := reason.From(err)
	if s.Spec.MaxUnavailable < 0 {
		problems = append(problems, reason.Reason{Code: InvalidSpec, Path: "spec.maxUnavailable", New: strconv.Itoa(s.Spec.MaxUnavailable), Remedy: "use 0 or more"})
	}
	if s.Spec.Storage.Sign() <= 0 {
		problems = append(problems, reason.Reason{Code: InvalidSpec, Path: "spec.storage", New: s.Spec.Storage.String(), Remedy: "give a size"})
	}
	for _, reserved := range r.InPlace.ValidateTemplate(&s.Spec.Template) {
		problems = append(problems, reason.Reason{Code: InvalidSpec, Path: "spec.template." + reserved.Path, New: reserved.New, Remedy: reserved.Remedy})
	}
	return problems
}

// ShardsList is a list of Shards.
type ShardsList struct { //nolint:revive // The scheme knows lists of a kind by this name.
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Shards `json:"items"`
}

// AddToScheme registers the kind.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Shards{}, &ShardsList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyObject makes Shards a runtime.Object.
func (s *Shards) DeepCopyObject() runtime.Object {
	out := &Shards{TypeMeta: s.TypeMeta, ObjectMeta: *s.ObjectMeta.DeepCopy(), Spec: s.Spec, Status: *s.Status.DeepCopy()}
	out.Spec.Storage = s.Spec.Storage.DeepCopy()
	s.Spec.Template.DeepCopyInto(&out.Spec.Template)
	return out
}

// DeepCopyObject makes ShardsList a runtime.Object.
func (l *ShardsList) DeepCopyObject() runtime.Object {
	out := &ShardsList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Shards))
	}
	return out
}
