package containerrecreaterequest

import (
	"context"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// FuzzFaults: agent and admission find the same faults in any spec. The test leaves out values that only admission
// may set: admission refuses such values in a new request, and then sets the values itself.
func FuzzFaults(f *testing.F) {
	admits := endpoint(admission.Options{Gates: map[apps.Gate]bool{apps.GateKruiseDaemon: true}}).Admit
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.ContainerRecreateRequest]{
		Object: func(spec []byte) (objects []*v1beta1.ContainerRecreateRequest, ok bool) {
			obj := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "restart"}}
			if err := json.Unmarshal(spec, &obj.Spec); err != nil {
				return nil, false
			}
			defaulted := obj.DeepCopy()
			api.Default(defaulted)
			return []*v1beta1.ContainerRecreateRequest{obj, defaulted}, len(obj.Spec.Undecodable) == 0
		},
		Resolve: func(obj *v1beta1.ContainerRecreateRequest) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(&obj.Spec)
			return problems, warnings
		},
		Create: func(ctx context.Context, obj *v1beta1.ContainerRecreateRequest) (field.ErrorList, error) {
			obj = obj.DeepCopy()
			for i := range obj.Spec.Containers {
				c := &obj.Spec.Containers[i]
				c.PreStop, c.Ports, c.StatusContext = nil, nil, nil
			}
			return admits(ctx, obj, nil)
		},
	})
}
