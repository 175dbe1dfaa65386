package containerrecreaterequest_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func ExampleDefault() {
	obj := &v1beta1.ContainerRecreateRequest{}
	containerrecreaterequest.Default(obj)
	fmt.Println(obj.Spec.Strategy.FailurePolicy)
	// Output: Fail
}

func TestDefault(t *testing.T) {
	type strategy = v1beta1.ContainerRecreateRequestStrategy
	for _, tc := range []struct {
		name     string
		in, want *strategy
	}{
		{"CR-3 no strategy", nil, &strategy{FailurePolicy: "Fail"}},
		{"CR-3 no policy", &strategy{OrderedRecreate: true}, &strategy{OrderedRecreate: true, FailurePolicy: "Fail"}},
		{"CR-3 a policy", &strategy{FailurePolicy: "Ignore"}, &strategy{FailurePolicy: "Ignore"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := &v1beta1.ContainerRecreateRequest{}
			obj.Spec.Strategy = tc.in
			for range 2 {
				containerrecreaterequest.Default(obj)
				if diff := cmp.Diff(tc.want, obj.Spec.Strategy); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}
