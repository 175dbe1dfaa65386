package v1alpha1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
)

func TestContainerRecreateRequestIsRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ContainerRecreateRequest", "ContainerRecreateRequestList"} {
		if !scheme.Recognizes(v1alpha1.GroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}
