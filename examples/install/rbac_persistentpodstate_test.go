package install_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// livePodStates makes the manager generate, change and delete a PersistentPodState, and write and remove records in
// the status.
func (c *cluster) livePodStates(ns string) {
	c.t.Helper()
	labels := map[string]string{"rights": "podstates"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "recorded", Annotations: map[string]string{
		apps.AnnotationGeneratePersistentPodState: "true", apps.AnnotationRequiredPersistentTopology: corev1.LabelHostname,
	}}}
	set.Spec.Selector, set.Spec.Template.Labels, set.Spec.ServiceName = &metav1.LabelSelector{MatchLabels: labels}, labels, "recorded"
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	if err := c.Create(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
	state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: set.Name}}
	until := func(wanted func(*v1beta1.PersistentPodState) bool) {
		c.t.Helper()
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(state), state); err != nil {
				return err
			}
			if !wanted(state) {
				return fmt.Errorf("%+v %+v", state.Spec, state.Status)
			}
			return nil
		})
	}
	change := func(edit func()) {
		c.t.Helper()
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			edit()
			return c.Update(ctx, set)
		})
	}
	until(func(state *v1beta1.PersistentPodState) bool { return len(state.Status.PodStates) == 1 })
	change(func() { set.Annotations[apps.AnnotationPersistentPodAnnotations] = "ip" })
	until(func(state *v1beta1.PersistentPodState) bool { return len(state.Spec.PersistentPodAnnotations) == 1 })
	change(func() { set.Spec.Replicas = new(int32) })
	until(func(state *v1beta1.PersistentPodState) bool { return len(state.Status.PodStates) == 0 })
	change(func() { set.Annotations = nil })
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(state), state); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("what nobody asks for any more is there"), err)
		}
		return nil
	})
}
