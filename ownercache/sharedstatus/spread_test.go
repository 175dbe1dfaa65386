package sharedstatus_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/subsets"
)

// Spread is a kind that distributes Pods over subsets: webhooks reserve places for new Pods, and a controller counts
// the Pods.
type Spread struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status SpreadStatus `json:"status,omitzero"`
}

type SpreadStatus struct {
	Places subsets.Book `json:"places,omitempty"`
}

func (s *Spread) DeepCopyObject() runtime.Object {
	out := *s
	out.ObjectMeta, out.Status.Places = *s.ObjectMeta.DeepCopy(), s.Status.Places.DeepCopy()
	return &out
}

func spreadScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(schema.GroupVersion{Group: "example.com", Version: "v1"}, &Spread{})
	return scheme
}
