package nodeimage_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/nodeimage"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func TestDefault(t *testing.T) {
	now := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	earlier := metav1.Time{Time: now.Add(-time.Hour)}
	obj := &v1beta1.NodeImage{}
	obj.Spec.Images = map[string]v1beta1.ImageSpec{"nginx": {Tags: []v1beta1.ImageTagSpec{
		{Tag: "2"}, {Tag: "1", CreatedAt: &earlier, PullPolicy: &v1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(5))}},
	}}}
	want := v1beta1.ImageSpec{Tags: []v1beta1.ImageTagSpec{
		{Tag: "2", CreatedAt: &metav1.Time{Time: now}, PullPolicy: &v1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(600)), BackoffLimit: new(int32(3))}},
		{Tag: "1", CreatedAt: &earlier, PullPolicy: &v1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(5)), BackoffLimit: new(int32(3))}},
	}}
	for range 2 {
		nodeimage.Default(obj, now)
		if diff := cmp.Diff(want, obj.Spec.Images["nginx"]); diff != "" {
			t.Errorf("IP-66 (-want +got):\n%s", diff)
		}
	}
}
