package install_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveLoops makes the loops over Pods do all their work: for a Pod without an owner, with a readiness gate and with
// containers that start one after the other, while an earlier Pod of the same name has left its ConfigMap.
func (c *cluster) liveLoops(ns string, since int64) {
	c.t.Helper()
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "alone-barrier", Finalizers: []string{"example.test/hold"}, // or the garbage collector might be quicker
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "alone", UID: "of-a-former-pod"}},
	}}
	if err := c.Create(c.t.Context(), left); err != nil {
		c.t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "alone", Annotations: map[string]string{apps.AnnotationLaunchPriority: apps.LaunchPriorityOrdered}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)), ReadinessGates: []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}},
			Containers: []corev1.Container{{Name: "first", Image: "example.test/app:v1"}, {Name: "second", Image: "example.test/app:v1"}},
		},
	}
	order, err := kruise.LaunchOrder()
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := order.Inject(pod, ""); err != nil {
		c.t.Fatal(err)
	}
	// Without the scheduling gate, all containers would be ready on the simulated Node before the first reconciliation,
	// which would then open all barriers at once.
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.test/hold"}}
	if err := c.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, time.Minute, func(context.Context) error {
		if !slices.ContainsFunc(readAudit(c.t, since), func(q request) bool { return q.verb == "delete" && q.resource == "configmaps" && q.code < 300 }) {
			return errors.New("what a former Pod has left is not deleted yet")
		}
		return nil
	})
	if err := c.Patch(c.t.Context(), left, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		found := &corev1.ConfigMap{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(left), found); err != nil {
			return err
		}
		if found.UID == left.UID {
			return errors.New("the ConfigMap is that of the former Pod")
		}
		return nil
	})
	base := pod.DeepCopy()
	pod.Spec.SchedulingGates = nil
	if err := c.Patch(c.t.Context(), pod, client.MergeFrom(base)); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Annotations[apps.AnnotationLaunchPriorityCompleted] != "true" || !podstate.IsTrue(pod, apps.ConditionKruisePodReady) {
			return fmt.Errorf("annotations %v, conditions %+v", pod.Annotations, pod.Status.Conditions)
		}
		return nil
	})
}
