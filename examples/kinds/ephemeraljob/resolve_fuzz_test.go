package ephemeraljob

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// FuzzFaults: for any spec, the controller and admission find the same invalid values.
func FuzzFaults(f *testing.F) {
	faulttest.Fuzz(f, faulttest.Sides[*v1alpha1.EphemeralJob]{
		Object: func(spec []byte) (objects []*v1alpha1.EphemeralJob, ok bool) {
			obj := &v1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "look"}}
			if err := json.Unmarshal(spec, &obj.Spec); err != nil {
				return nil, false
			}
			return []*v1alpha1.EphemeralJob{obj}, len(obj.Spec.Undecodable) == 0
		},
		Resolve: func(obj *v1alpha1.EphemeralJob) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(obj)
			return problems, warnings
		},
		Create: endpoint(admission.Options{}).ValidateCreate,
		Own:    ownRules(),
	})
}

// ownRules returns the errors that only admission reports: fields without a value, for which the API server sets
// defaults in a Pod.
func ownRules() (out []string) {
	for _, i := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		for _, name := range []string{"imagePullPolicy", "terminationMessagePolicy"} {
			out = append(out, "spec.template.ephemeralContainers["+i+"]."+name+": Required value")
		}
	}
	return out
}
