package install_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveJobs runs a BroadcastJob until it has ended and is deleted.
func (c *cluster) liveJobs(ns string) {
	c.t.Helper()
	job := &v1beta1.BroadcastJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "once"},
		Spec: v1beta1.BroadcastJobSpec{
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{controlplane.Complete: "true"}},
				Spec: corev1.PodSpec{
					NodeSelector:  map[string]string{corev1.LabelHostname: controlplane.FirstNode},
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
				},
			},
			CompletionPolicy: v1beta1.CompletionPolicy{TTLSecondsAfterFinished: ptr.To[int32](0)},
		},
	}
	if err := c.Create(c.t.Context(), job); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the job is there: %+v, %w", job.Status, err)
		}
		return nil
	})
}
