package statefulset

import (
	"context"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
)

// FuzzFaults: controller and admission find the same faults in any spec.
func FuzzFaults(f *testing.F) {
	create := endpoint(admission.Options{}).ValidateCreate
	faulttest.Fuzz(f, faulttest.Kind[*v1beta1.StatefulSet]{
		Object: func(spec []byte) (objects []*v1beta1.StatefulSet, ok bool) {
			set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
			if err := json.Unmarshal(spec, &set.Spec); err != nil {
				return nil, false
			}
			defaulted := set.DeepCopy()
			api.Default(defaulted, nil, api.DefaultOptions{})
			return []*v1beta1.StatefulSet{set, defaulted}, len(set.Spec.Undecodable) == 0
		},
		Resolve: func(set *v1beta1.StatefulSet) (problems, warnings kruise.Faults) {
			_, problems, warnings = resolve(set, apps.DefaultGates())
			return problems, warnings
		},
		Create: func(set *v1beta1.StatefulSet) field.ErrorList {
			errs, err := create(context.Background(), set)
			if err != nil {
				f.Fatal(err)
			}
			return errs
		},
		Own: []string{"spec.updateStrategy.type: Required value", "spec.updateStrategy.rollingUpdate: Required value"},
	})
}
