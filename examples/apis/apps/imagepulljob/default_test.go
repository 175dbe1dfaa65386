package imagepulljob_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/imagepulljob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func TestDefault(t *testing.T) {
	want := v1beta1.ImagePullJobSpec{
		CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.Always}, ImagePullPolicy: "IfNotPresent",
		PullPolicy: &v1beta1.PullPolicy{TimeoutSeconds: new(int32(600)), BackoffLimit: new(int32(3))},
	}
	obj := &v1beta1.ImagePullJob{}
	for range 2 {
		imagepulljob.Default(obj)
		if diff := cmp.Diff(want, obj.Spec); diff != "" {
			t.Errorf("3.1 (-want +got):\n%s", diff)
		}
	}
	list := &v1beta1.ImageListPullJob{}
	list.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: new(int32(5))}
	imagepulljob.DefaultList(list)
	wantList := v1beta1.ImageListPullJobSpec{
		CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.Always},
		PullPolicy:       &v1beta1.PullPolicy{TimeoutSeconds: new(int32(5)), BackoffLimit: new(int32(3))},
	}
	if diff := cmp.Diff(wantList, list.Spec); diff != "" {
		t.Errorf("3.2 (-want +got):\n%s", diff)
	}
}

func TestParallelism(t *testing.T) {
	for _, tc := range []struct {
		name  string
		value *intstr.IntOrString
		want  int
	}{
		{"3.1 the default", nil, 1},
		{"3.1 zero holds the job", new(intstr.FromInt32(0)), 0},
		{"3.1 a number as a string", new(intstr.FromString("7")), 7},
		{"3.1 no number", new(intstr.FromString("x")), 0},
	} {
		if got := imagepulljob.Parallelism(tc.value); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}
