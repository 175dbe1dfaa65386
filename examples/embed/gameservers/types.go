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

// Each operator chooses these names, because the library workloadkit has no default names.
const (
	group         = "games.example.com"
	revisionLabel = group + "/revision"
	stateLabel    = group + "/state"
	sinceKey      = group + "/since"
	// holdLabel is the label that keeps a Pod from being updated or deleted until the match maker removes the label.
	holdLabel = group + "/hold"
	// deleteLabel is for users: a Pod with this label is deleted, and a new Pod is created.
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

// GroupVersion is the kind's API group and version.
var GroupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// GameServers is a workload whose Pods have ordinals: NAME-0, NAME-1 and so on.
type GameServers struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is written by users. The webhook validates the spec, but the API server does not check the template.
type Spec struct {
	Replicas int `json:"replicas"`
	// Start is the lowest ordinal. Reserved contains ordinals to leave out, such as 3 or "10-19".
	Start    int                  `json:"start,omitempty"`
	Reserved []intstr.IntOrString `json:"reserved,omitempty"`
	// Partition is how many Pods stay at the old revision: the Pods with the lowest ordinals.
	Partition int `json:"partition,omitempty"`
	// MaxUnavailable is how many ordinals may be without an available Pod at the same time. Pods that the operator takes
	// out of service count too. 0 means 1.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// AskMatchMaker makes the operator put the label games.example.com/hold=match on Pods. Before a Pod is updated or
	// deleted, the operator sets the Pod's label games.example.com/state to PreparingUpdate or PreparingDelete, and
	// waits. The match maker, which is another program, removes the label games.example.com/hold when no match is
	// running on the Pod.
	AskMatchMaker bool `json:"askMatchMaker,omitempty"`
	// HistoryLimit is the number of revisions to keep in addition to the revisions of existing Pods.
	HistoryLimit int                    `json:"historyLimit,omitempty"`
	Template     corev1.PodTemplateSpec `json:"template"`

	undecodable []decode.Problem
}

// UnmarshalJSON leaves out values of a wrong type, because a single invalid object must not make the list of all
// GameServers fail.
func (s *Spec) UnmarshalJSON(data []byte) (err error) {
	type plain Spec
	s.undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if parts of the spec could not be decoded, because writing the spec would lose these
// parts.
func (s Spec) MarshalJSON() ([]byte, error) {
	type plain Spec
	return decode.Marshal(plain(s), s.undecodable)
}

// Status is written by the operator.
type Status struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Revision names the newest revision, which the template defines. CurrentRevision names the older revision, which
	// an update replaces.
	Revision        string `json:"revision,omitempty"`
	CurrentRevision string `json:"currentRevision,omitempty"`
	Pods            int32  `json:"pods"`
	Available       int32  `json:"available"`
	Updated         int32  `json:"updated"`
	// Conditions contains the condition Failed with the error, and the condition Progressing with the reason for
	// which the update waits.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GameServersList is a list of GameServers.
type GameServersList struct { //nolint:revive // The scheme expects the list type of a kind to have this name.
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
