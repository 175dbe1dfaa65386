package install_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveSubsets makes the manager create, change and delete workloads of each kind for the subsets of a UnitedDeployment.
func (c *cluster) liveSubsets(ns string) {
	c.t.Helper()
	labels := map[string]string{"rights": "subsets"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}}}
	meta, selector := metav1.ObjectMeta{Labels: labels}, &metav1.LabelSelector{MatchLabels: labels}
	ud := &v1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "united"}}
	ud.Spec.Selector, ud.Spec.Topology.Subsets = selector, []v1beta1.Subset{{Name: "a"}}
	templates := make([]v1beta1.SubsetTemplate, 4)
	deployment, set, clones, advanced := &v1beta1.DeploymentTemplateSpec{ObjectMeta: meta}, &v1beta1.StatefulSetTemplateSpec{ObjectMeta: meta},
		&v1beta1.CloneSetTemplateSpec{ObjectMeta: meta}, &v1beta1.AdvancedStatefulSetTemplateSpec{ObjectMeta: meta}
	deployment.Spec.Selector, deployment.Spec.Template, templates[0].DeploymentTemplate = selector, pod, deployment
	set.Spec.Selector, set.Spec.Template, templates[1].StatefulSetTemplate = selector, pod, set
	clones.Spec.Selector, clones.Spec.Template, templates[2].CloneSetTemplate = selector, pod, clones
	advanced.Spec.Selector, advanced.Spec.Template, templates[3].AdvancedStatefulSetTemplate = selector, pod, advanced
	ud.Spec.Template = templates[0]
	if err := c.Create(c.t.Context(), ud); err != nil {
		c.t.Fatal(err)
	}
	change := func(edit func()) {
		c.t.Helper()
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(ud), ud); err != nil {
				return err
			}
			edit()
			return c.Update(ctx, ud)
		})
		controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(ud), ud); err != nil {
				return err
			}
			if s := &ud.Status; s.ObservedGeneration != ud.Generation || s.UpdatedReadyReplicas != *ud.Spec.Replicas || s.Replicas != *ud.Spec.Replicas {
				return fmt.Errorf("generation %d: %+v", ud.Generation, s)
			}
			return nil
		})
	}
	for i := range templates {
		change(func() { ud.Spec.Template = templates[i] })
		change(func() { ud.Spec.Replicas = new(int32(i%2 + 1)) })
	}
	change(func() { ud.Spec.Template = templates[0] })
	change(func() { ud.Spec.Replicas = new(int32(3)) })
}
