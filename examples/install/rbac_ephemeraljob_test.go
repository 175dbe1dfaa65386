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

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveContainers runs an ephemeral container in a Pod until it has ended and its job is deleted.
func (c *cluster) liveContainers(ns string) {
	c.t.Helper()
	labels := map[string]string{"rights": "containers"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "looked-at", Labels: labels}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	job := &v1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "look"}}
	job.Spec.Selector, job.Spec.TTLSecondsAfterFinished = &metav1.LabelSelector{MatchLabels: labels}, ptr.To[int32](0)
	job.Spec.Template.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debugger", Image: "example.test/tool:v1", Command: []string{"true"},
		ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}}}
	for _, object := range []client.Object{pod, job} {
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
	controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the job is there: %+v, %w", job.Status, err)
		}
		return nil
	})
}
