package decode_test

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
)

// Batch is an example of a kind with a Pod template that no schema checks.
type Batch struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec BatchSpec `json:"spec"`
}

// BatchSpec is written by users.
type BatchSpec struct {
	Workers  int32                  `json:"workers,omitempty"`
	Template corev1.PodTemplateSpec `json:"template"`

	// Undecodable lists the fields that could not be decoded.
	Undecodable []decode.Problem `json:"-"`
}

// UnmarshalJSON leaves out undecodable fields, so that a single bad Batch does not make the decoding of the whole
// list fail.
func (s *BatchSpec) UnmarshalJSON(data []byte) (err error) {
	type plain BatchSpec // without the method
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields, because a write would remove the user's values. Controllers
// patch only metadata and status.
func (s BatchSpec) MarshalJSON() ([]byte, error) {
	type plain BatchSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// ExampleFields: a list of objects can be decoded although an object has an undecodable field, and the object says
// why.
func ExampleFields() {
	var list struct {
		Items []Batch `json:"items"`
	}
	err := json.Unmarshal([]byte(`{"items":[
		{"metadata":{"name":"good"},"spec":{"workers":2,"template":{"spec":{"containers":[{"name":"app"}]}}}},
		{"metadata":{"name":"typo"},"spec":{"workers":3,"template":{"spec":{"overhead":{"cpu":"oops"}}}}},
		{"metadata":{"name":"slow"},"spec":{"workers":4,"template":{"spec":{"overhead":{"cpu":"1e-200000000"}}}}}
	]}`), &list)
	fmt.Println(err)
	for _, batch := range list.Items {
		fmt.Println(batch.Name, batch.Spec.Workers)
		for _, problem := range batch.Spec.Undecodable {
			fmt.Printf("  %s: %.50s\n", problem.Path, problem.Detail)
		}
	}
	_, err = json.Marshal(list.Items[1])
	fmt.Println("written:", err == nil)

	// Output:
	// <nil>
	// good 2
	// typo 3
	//   spec.template.spec.overhead.cpu: "oops" is no quantity, such as 500m, 2 or 1Gi
	// slow 4
	//   spec.template.spec.overhead.cpu: a quantity has at most 64 characters and an expone
	// written: false
}
