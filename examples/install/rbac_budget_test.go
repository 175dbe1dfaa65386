package install_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveBudgets makes the manager count the Pods of a PodUnavailableBudget for a workload whose kind the manager does
// not cache.
func (c *cluster) liveBudgets(ns string) {
	c.t.Helper()
	workload := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "old"}}
	workload.Spec.Replicas = ptr.To[int32](2)
	workload.Spec.Template = &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "old"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	}
	budget := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "old"}}
	budget.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: "v1", Kind: "ReplicationController", Name: "old"}
	budget.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	for _, object := range []client.Object{workload, budget} {
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil || budget.Status.CurrentAvailable != 2 || budget.Status.TotalReplicas != 2 {
			return fmt.Errorf("status %+v, %w", budget.Status, err)
		}
		return nil
	})
}
