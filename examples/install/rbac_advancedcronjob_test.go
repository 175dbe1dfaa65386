package install_test

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveSchedules makes AdvancedCronJobs start jobs of all kinds, and replace jobs.
func (c *cluster) liveSchedules(ns string) {
	c.t.Helper()
	pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
	}}
	var all []*v1beta1.AdvancedCronJob
	for name, template := range map[string]v1beta1.CronJobTemplate{
		"jobs":      {JobTemplate: &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}}},
		"images":    {ImageListPullJobTemplate: &v1beta1.ImageListPullJobTemplateSpec{Spec: nowhere()}},
		"broadcast": {BroadcastJobTemplate: &v1beta1.BroadcastJobTemplateSpec{Spec: v1beta1.BroadcastJobSpec{Template: pods}}},
	} {
		obj := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		obj.Spec = v1beta1.AdvancedCronJobSpec{Schedule: "@every 10s", ConcurrencyPolicy: v1beta1.ReplaceConcurrent, Template: template}
		if err := c.Create(c.t.Context(), obj); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, obj)
	}
	for _, obj := range all {
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			if at := obj.Status.LastScheduleTime; at == nil || at.Sub(obj.CreationTimestamp.Time) < 15*time.Second { // the job of the second slot replaces the first job
				return fmt.Errorf("last started at %v", at)
			}
			return nil
		})
		if err := c.Delete(c.t.Context(), obj); err != nil {
			c.t.Fatal(err)
		}
	}
}
