package v1beta1_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func Example() {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
	}
	kinds, _, _ := scheme.ObjectKinds(&v1beta1.CloneSet{})
	fmt.Println(kinds)
	// Output: [apps.kruise.io/v1beta1, Kind=CloneSet]
}

func TestAddToSchemeTwice(t *testing.T) {
	scheme := runtime.NewScheme()
	for range 2 {
		if err := v1beta1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"CloneSet", "CloneSetList", "StatefulSet", "StatefulSetList"} {
		if !scheme.Recognizes(v1beta1.GroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}
