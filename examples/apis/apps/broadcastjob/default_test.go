package broadcastjob_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func TestDefault(t *testing.T) {
	all := intstr.FromInt32(math.MaxInt32)
	want := v1beta1.BroadcastJobSpec{
		Parallelism: &all, CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.Always}, FailurePolicy: v1beta1.FailurePolicy{Type: v1beta1.FailurePolicyTypeFailFast},
	}
	got := &v1beta1.BroadcastJob{}
	broadcastjob.Default(got)
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("BJ-1 (-want +got):\n%s", diff)
	}
	two := intstr.FromString("2%")
	set := v1beta1.BroadcastJobSpec{
		Parallelism: &two, CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.Never}, FailurePolicy: v1beta1.FailurePolicy{Type: v1beta1.FailurePolicyTypePause},
	}
	kept := set.DeepCopy()
	if broadcastjob.DefaultSpec(kept); cmp.Diff(&set, kept) != "" {
		t.Errorf("BJ-1 what is set was changed: %+v", kept)
	}
}
