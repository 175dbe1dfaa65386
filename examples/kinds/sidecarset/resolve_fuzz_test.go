package sidecarset

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// FuzzFaults: controller and admission find the same faults in any spec, and sidecars of a spec without problems can be
// compiled.
func FuzzFaults(f *testing.F) {
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.SidecarSet]{
		Object: func(spec []byte) (objects []*v1beta1.SidecarSet, ok bool) {
			obj := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "mesh"}}
			if err := json.Unmarshal(spec, &obj.Spec); err != nil {
				return nil, false
			}
			canary, defaulted := obj.DeepCopy(), obj.DeepCopy()
			canary.Annotations = map[string]string{apps.AnnotationSidecarSetCanary: "true", apps.AnnotationSidecarSetBase: "base"}
			if err := api.Default(defaulted); err != nil {
				return nil, false
			}
			return []*v1beta1.SidecarSet{obj, canary, defaulted}, len(obj.Spec.Undecodable) == 0
		},
		Resolve: func(obj *v1beta1.SidecarSet) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(obj, byIndex)
			if _, err := Compile(obj, "", nil); err != nil && problems == nil {
				panic(err) // this function has no testing.TB
			}
			return problems, warnings
		},
		Create: endpoint(admission.Options{}).ValidateCreate,
	})
}
