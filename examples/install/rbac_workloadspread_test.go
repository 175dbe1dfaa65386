package install_test

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveSpreads creates a Deployment before its WorkloadSpread. The manager must find the Deployment's Pods, write the
// annotations with the subset and the deletion cost, and count the Pods in the status.
func (c *cluster) liveSpreads(ns string) {
	c.t.Helper()
	labels := map[string]string{"rights": "spreads"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "spread"}}
	d.Spec.Replicas, d.Spec.Selector, d.Spec.Template.Labels = new(int32(2)), &metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	if err := c.Create(c.t.Context(), d); err != nil {
		c.t.Fatal(err)
	}
	half := intstr.FromString("50%")
	spread := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "spread"}}
	spread.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name}
	spread.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: &half}, {Name: "b"}}
	if err := c.Create(c.t.Context(), spread); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(spread), spread); err != nil {
			return err
		}
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(ns), client.MatchingLabels(labels)); err != nil {
			return err
		}
		ranked := 0
		for i := range pods.Items {
			if pods.Items[i].Annotations[apps.AnnotationMatchedWorkloadSpread] != "" && pods.Items[i].Annotations[apps.AnnotationPodDeletionCost] != "" {
				ranked++
			}
		}
		if n := len(spread.Status.SubsetStatuses); n != 2 || ranked != 2 {
			return fmt.Errorf("%d Pods are ranked: %+v", ranked, spread.Status)
		}
		return nil
	})
}
