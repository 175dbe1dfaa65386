package gameservers

import (
	_ "embed"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
)

// Names of the operator's own: the kit has none.
const (
	group         = "games.example.com"
	revisionLabel = group + "/revision"
	stateLabel    = group + "/state"
	sinceKey      = group + "/since"
	// holdLabel is the match maker's.
	holdLabel = group + "/hold"
	// deleteLabel is for users: a Pod with the label is deleted and recreated.
	deleteLabel = group + "/delete"
	gate        = group + "/Updated"
)

// CRD is the CustomResourceDefinition, as YAML.
//
//go:embed crd.yaml
var CRD []byte

// Webhook is the ValidatingWebhookConfiguration, as YAML. Its Service is in the namespace games.
//
//go:embed webhook.yaml
var Webhook []byte

// GroupVersion of the kind.
var GroupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// GameServers keeps Pods with ordinals: NAME-0, NAME-1 and so on.
type GameServers struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is written by users. The webhook checks the spec, and no schema checks the template.
type Spec struct {
	Replicas int `json:"replicas"`
	// Start is the lowest ordinal. Reserved ordinals, such as 3 or "10-19", are left out.
	Start    int                  `json:"start,omitempty"`
	Reserved []intstr.IntOrString `json:"reserved,omitempty"`
	// Partition is how many Pods, of the lowest ordinals, stay at the revision before.
	Partition int `json:"partition,omitempty"`
	// MaxUnavailable is how many ordinals may lack an available Pod before the operator takes another Pod out of service.
	// 0 stands for 1.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// AskMatchMaker has Pods carry the label games.example.com/hold=match. Before a Pod is updated or deleted, its label
	// games.example.com/state becomes PreparingUpdate or PreparingDelete; the match maker removes the first label when no
	// match runs.
	AskMatchMaker bool `json:"askMatchMaker,omitempty"`
	// HistoryLimit is how many revisions without Pods are kept.
	HistoryLimit int                    `json:"historyLimit,omitempty"`
	Template     corev1.PodTemplateSpec `json:"template"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out invalid values: a list of all GameServers must not fail for a single object.
func (s *Spec) UnmarshalJSON(data []byte) (err error) {
	type plain Spec
	s.undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses an incompletely read spec.
func (s Spec) MarshalJSON() ([]byte, error) {
	type plain Spec
	return decode.Marshal(plain(s), s.undecodable)
}

// Status is written by the operator.
type Status struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Revision is the template's revision, CurrentRevision the replaced revision.
	Revision        string `json:"revision,omitempty"`
	CurrentRevision string `json:"currentRevision,omitempty"`
	Pods            int32  `json:"pods"`
	Available       int32  `json:"available"`
	Updated         int32  `json:"updated"`
	// Conditions are Failed, with the fault, and Progressing, with the awaited event.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GameServersList is a list of GameServers.
type GameServersList struct { //nolint:revive // The scheme knows lists of a kind by this name.
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []GameServers `json:"items"`
}

// AddToScheme registers the kind.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &GameServers{}, &GameServersList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyObject makes GameServers a runtime.Object.
func (g *GameServers) DeepCopyObject() runtime.Object {
	out := &GameServers{TypeMeta: g.TypeMeta, ObjectMeta: *g.ObjectMeta.DeepCopy(), Spec: g.Spec, Status: g.Status}
	g.Spec.Template.DeepCopyInto(&out.Spec.Template)
	out.Spec.Reserved, out.Status.Conditions = slices.Clone(g.Spec.Reserved), slices.Clone(g.Status.Conditions)
	return out
}

// DeepCopyObject makes GameServersList a runtime.Object.
func (l *GameServersList) DeepCopyObject() runtime.Object {
	out := &GameServersList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*GameServers))
	}
	return out
}
