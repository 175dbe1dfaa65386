package uniteddeployment

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/uniteddeployment"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// FuzzFaults: for any spec, with or without defaults, the controller and admission find the same invalid values.
func FuzzFaults(f *testing.F) {
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.UnitedDeployment]{
		Object: func(spec []byte) (objects []*v1beta1.UnitedDeployment, ok bool) {
			plain := &v1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			if err := json.Unmarshal(spec, &plain.Spec); err != nil {
				return nil, false
			}
			defaulted := plain.DeepCopy()
			api.Default(defaulted, nil, api.DefaultOptions{})
			return []*v1beta1.UnitedDeployment{plain, defaulted}, len(plain.Spec.Undecodable) == 0
		},
		Resolve: func(obj *v1beta1.UnitedDeployment) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(obj)
			return problems, warnings
		},
		Create: endpoint(admission.Options{}).ValidateCreate,
	})
}
