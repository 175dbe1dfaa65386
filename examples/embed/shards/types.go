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

// Each operator chooses these names, because the library workloadkit has no default names.
const (
	group         = "shards.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
)

// historyLimit is the number of revisions to keep in addition to the revisions of existing Pods.
const historyLimit = 10

// InvalidSpec is the reason why the Pods of a Shards are not changed.
const InvalidSpec reason.Code = "InvalidSpec"

// CRD is the CustomResourceDefinition, and Webhook the ValidatingWebhookConfiguration, both as YAML. The Service of the
// webhook is in the namespace shards.
var (
	//go:embed crd.yaml
	CRD []byte
	//go:embed webhook.yaml
	Webhook []byte
)

// GroupVersion is the kind's API group and version.
var GroupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// Shards is a workload whose Pods have ordinals and volumes: NAME-0, NAME-1 and so on.
type Shards struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is written by users. The API server does not check the template.
type Spec struct {
	Replicas int `json:"replicas"`
	// MaxUnavailable is how many Pods may be unavailable because of the operator, evictions and users together. 0 means
	// 1.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// Storage is the size of a Pod's volume. If Storage is raised, the volumes are enlarged.
	Storage      resource.Quantity      `json:"storage"`
	StorageClass *string                `json:"storageClass,omitempty"`
	Template     corev1.PodTemplateSpec `json:"template"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out values of a wrong type, because a single invalid Shards must not make the list of all
// Shards fail.
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

// Status is written by the operator; the webhook also writes Budget.
type Status struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Revision           string `json:"revision,omitempty"`
	CurrentRevision    string `json:"currentRevision,omitempty"`
	// Pods is the number of active Pods, Available the number of available Pods, and Updated the number of updated
	// Pods.
	Pods      int32 `json:"pods"`
	Available int32 `json:"available"`
	Updated   int32 `json:"updated"`
	// Budget is the state of the disruption budget: the number of Pods that must be in service, and the admitted
	// disruptions.
	Budget disruption.Ledger `json:"budget"`
	// Conditions contains the condition Failed, and the condition Waiting with the reason why an update does not
	// continue.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopy returns a deep copy of the status.
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

// problems returns the errors in a spec.
func (r *reconciler) problems(s *Shards) reason.List {
	if problems := decode.Reasons(s.Spec.undecodable); problems != nil {
		return problems // further checks would only report missing values
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
type ShardsList struct { //nolint:revive // The scheme expects the list type of a kind to have this name.
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
