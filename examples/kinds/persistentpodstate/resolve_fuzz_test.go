package persistentpodstate

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// FuzzFaults: for any spec, the controller and admission find the same invalid values.
func FuzzFaults(f *testing.F) {
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.PersistentPodState]{
		Object: func(spec []byte) (objects []*v1beta1.PersistentPodState, ok bool) {
			obj := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "keep"}}
			if err := json.Unmarshal(spec, &obj.Spec); err != nil {
				return nil, false
			}
			return []*v1beta1.PersistentPodState{obj}, len(obj.Spec.Undecodable) == 0
		},
		Resolve: func(obj *v1beta1.PersistentPodState) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(&obj.Spec)
			return problems, warnings
		},
		Create: endpoint(admission.Options{}).ValidateCreate,
	})
}
