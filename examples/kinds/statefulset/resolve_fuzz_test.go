package statefulset

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// FuzzFaults: for any spec, the controller and admission find the same invalid values.
func FuzzFaults(f *testing.F) {
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.StatefulSet]{
		Object: func(spec []byte) (objects []*v1beta1.StatefulSet, ok bool) {
			set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
			if err := json.Unmarshal(spec, &set.Spec); err != nil {
				return nil, false
			}
			defaulted := set.DeepCopy()
			api.Default(defaulted, nil, api.DefaultOptions{})
			return []*v1beta1.StatefulSet{set, defaulted}, len(set.Spec.Undecodable) == 0
		},
		Resolve: func(set *v1beta1.StatefulSet) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(set, apps.DefaultGates())
			return problems, warnings
		},
		Create: endpoint(admission.Options{}).ValidateCreate,
		Own:    []string{"spec.updateStrategy.type: Required value", "spec.updateStrategy.rollingUpdate: Required value"},
	})
}
