package advancedcronjob_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func pods() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "app:v1"}},
	}}
}

// valid returns a valid object with defaults, and with the given edits.
func valid(edits ...func(*v1beta1.AdvancedCronJob)) *v1beta1.AdvancedCronJob {
	obj := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "default"}}
	obj.Spec.Schedule = "0 3 * * *"
	obj.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods()}}
	for _, edit := range edits {
		edit(obj)
	}
	advancedcronjob.Default(obj)
	return obj
}

func images(obj *v1beta1.AdvancedCronJob) {
	obj.Spec.Template = v1beta1.CronJobTemplate{ImageListPullJobTemplate: &v1beta1.ImageListPullJobTemplateSpec{Spec: v1beta1.ImageListPullJobSpec{Images: []string{"a"}}}}
}

func TestDefault(t *testing.T) {
	want := v1beta1.AdvancedCronJobSpec{
		ConcurrencyPolicy: v1beta1.AllowConcurrent, Paused: new(false), SuccessfulJobsHistoryLimit: new(int32(3)), FailedJobsHistoryLimit: new(int32(1)),
	}
	got := &v1beta1.AdvancedCronJob{}
	if advancedcronjob.Default(got); cmp.Diff(want, got.Spec) != "" {
		t.Errorf("AC-1 (-want +got):\n%s", cmp.Diff(want, got.Spec))
	}
	if list := valid(images); list.Spec.ConcurrencyPolicy != v1beta1.ReplaceConcurrent {
		t.Errorf("AC-1 image list: %s", list.Spec.ConcurrencyPolicy)
	}
	set := v1beta1.AdvancedCronJobSpec{
		ConcurrencyPolicy: v1beta1.ForbidConcurrent, Paused: new(true), SuccessfulJobsHistoryLimit: new(int32(0)), FailedJobsHistoryLimit: new(int32(0)),
	}
	kept := &v1beta1.AdvancedCronJob{Spec: *set.DeepCopy()}
	if advancedcronjob.Default(kept); cmp.Diff(set, kept.Spec) != "" {
		t.Errorf("AC-1 what is set was changed: %+v", kept.Spec)
	}
}

func TestJobName(t *testing.T) {
	slot := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	if got := advancedcronjob.JobName("nightly", slot); got != "nightly-1772330400" {
		t.Errorf("AC-15: %s", got)
	}
}
