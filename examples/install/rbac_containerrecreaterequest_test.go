package install_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveRequests makes the manager close the readiness gate of a Pod for a ContainerRecreateRequest, open the gate
// after the end of the request, and delete the request.
func (c *cluster) liveRequests(ns string) {
	c.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "restarted"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(0)), ReadinessGates: []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}},
		Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
	}}
	if err := c.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	until := func(wanted func(*corev1.Pod) bool) {
		c.t.Helper()
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			if !wanted(pod) {
				return fmt.Errorf("conditions %+v", pod.Status.Conditions)
			}
			return nil
		})
	}
	until(podstate.IsReady)
	request := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "restart"}}
	request.Spec = v1beta1.ContainerRecreateRequestSpec{
		PodName: pod.Name, Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}}, TTLSecondsAfterFinished: new(int32(0)),
		Strategy: &v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: new(int64(1))},
	}
	if err := c.Create(c.t.Context(), request); err != nil {
		c.t.Fatal(err)
	}
	for _, phase := range []v1beta1.ContainerRecreateRequestPhase{v1beta1.ContainerRecreateRequestRecreating, v1beta1.ContainerRecreateRequestCompleted} {
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
				return err
			}
			request.Status.Phase = phase
			return c.Status().Update(ctx, request)
		})
		until(func(pod *corev1.Pod) bool {
			return podstate.IsReady(pod) == (phase == v1beta1.ContainerRecreateRequestCompleted)
		})
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(request), request); !apierrors.IsNotFound(err) {
			return fmt.Errorf("finalizers %v, labels %v, %+v: %w", request.Finalizers, request.Labels, request.Status, err)
		}
		return nil
	})
	if slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool { return condition.Status == "" }) {
		c.t.Errorf("conditions %+v", pod.Status.Conditions)
	}
}
