package broadcastjob

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// FuzzFaults: for any spec, the controller and admission find the same invalid values.
func FuzzFaults(f *testing.F) {
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.BroadcastJob]{
		Object: func(spec []byte) (objects []*v1beta1.BroadcastJob, ok bool) {
			obj := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			if err := json.Unmarshal(spec, &obj.Spec); err != nil {
				return nil, false
			}
			defaulted := obj.DeepCopy()
			api.Default(defaulted)
			return []*v1beta1.BroadcastJob{obj, defaulted}, len(obj.Spec.Undecodable) == 0
		},
		Resolve: func(obj *v1beta1.BroadcastJob) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(obj)
			return problems, warnings
		},
		Create: endpoint(admission.Options{}).ValidateCreate,
	})
}
