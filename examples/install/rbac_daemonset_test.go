package install_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveDaemons makes the controller of DaemonSets use all of its rights.
func (c *cluster) liveDaemons(ns string) {
	c.t.Helper()
	labels := map[string]string{"app": "agent"}
	set := &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "agent"},
		Spec: v1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector:                  map[string]string{corev1.LabelHostname: controlplane.FirstNode},
				TerminationGracePeriodSeconds: ptr.To[int64](0),
				Containers:                    []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
			}},
			UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateDaemonSet{
				RollingUpdateType: v1beta1.InPlaceIfPossibleRollingUpdateType,
			}},
		},
	}
	if err := c.Create(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
	for _, change := range []func(*corev1.Container){
		func(*corev1.Container) {},
		func(app *corev1.Container) { app.Image = "example.test/app:v2" },
		func(app *corev1.Container) { app.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} },
	} {
		controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			change(&set.Spec.Template.Spec.Containers[0])
			return c.Update(ctx, set)
		})
		controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			if s := set.Status; s.ObservedGeneration != set.Generation || s.UpdatedNumberScheduled != 1 || s.NumberAvailable != 1 {
				return fmt.Errorf("generation %d, status %+v", set.Generation, s)
			}
			return nil
		})
	}
	if err := c.Delete(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
}
