package workloadspread

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
	f.Add([]byte(`{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"targetFilter":{"selector":{"matchLabels":{"a":"b"}},"replicasPathList":["spec.replicas"]},
		"subsets":[{"name":"a","maxReplicas":"30%","requiredNodeSelector":{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},"patch":{"metadata":{"labels":{"zone":"a"}},"spec":{"containers":[{"name":"main","image":"v2"}]}}},
			{"name":"b","maxReplicas":3,"tolerations":[{"key":"k","operator":"Exists"}],"preferredNodeSelector":[{"weight":5,"preference":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}}]},{"name":"c"}],
		"scheduleStrategy":{"type":"Adaptive","adaptive":{"rescheduleCriticalSeconds":30}}}`), []byte{})
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.WorkloadSpread]{
		Object: func(spec []byte) (objects []*v1beta1.WorkloadSpread, ok bool) {
			obj := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "zones"}}
			if err := json.Unmarshal(spec, &obj.Spec); err != nil {
				return nil, false
			}
			return []*v1beta1.WorkloadSpread{obj}, len(obj.Spec.Undecodable) == 0
		},
		Resolve: func(obj *v1beta1.WorkloadSpread) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(&obj.Spec)
			return problems, warnings
		},
		Create: endpoint(admission.Options{}).ValidateCreate,
	})
}
