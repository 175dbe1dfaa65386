package advancedcronjob

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func pods() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "app:v1"}},
	}}
}

// valid returns a valid, defaulted object, after edits.
func valid(edits ...func(*v1beta1.AdvancedCronJob)) *v1beta1.AdvancedCronJob {
	obj := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "default"}}
	obj.Spec.Schedule = "0 3 * * *"
	obj.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods()}}
	for _, edit := range edits {
		edit(obj)
	}
	api.Default(obj)
	return obj
}

func broadcast(obj *v1beta1.AdvancedCronJob) {
	obj.Spec.Template = v1beta1.CronJobTemplate{BroadcastJobTemplate: &v1beta1.BroadcastJobTemplateSpec{Spec: v1beta1.BroadcastJobSpec{Template: pods()}}}
}

func images(obj *v1beta1.AdvancedCronJob) {
	obj.Spec.Template = v1beta1.CronJobTemplate{ImageListPullJobTemplate: &v1beta1.ImageListPullJobTemplateSpec{Spec: v1beta1.ImageListPullJobSpec{Images: []string{"a"}}}}
}

// begins returns the errors without values.
func begins(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, err.Field+": "+err.Type.String())
	}
	return out
}

func TestValidateCreate(t *testing.T) {
	set := func(edit func(*v1beta1.AdvancedCronJobSpec)) func(*v1beta1.AdvancedCronJob) {
		return func(obj *v1beta1.AdvancedCronJob) { edit(&obj.Spec) }
	}
	named := func(name string) func(*v1beta1.AdvancedCronJob) {
		return func(obj *v1beta1.AdvancedCronJob) { obj.Name = name }
	}
	for _, c := range []struct {
		name string
		edit func(*v1beta1.AdvancedCronJob)
		want []string
	}{
		{"a Job", named("nightly"), nil},
		{"a BroadcastJob", broadcast, nil},
		{"2.1 a name with a dot", named("a.b"), []string{"metadata.name: Invalid value"}},
		{"AC-15 52 characters", named(strings.Repeat("a", 52)), nil},
		{"AC-15 53 characters leave no room", named(strings.Repeat("a", 53)), []string{"metadata.name: Too long"}},
		{"2.1 no schedule", set(func(s *v1beta1.AdvancedCronJobSpec) { s.Schedule = "" }), []string{"spec.schedule: Required value"}},
		{"AC-3 no template", set(func(s *v1beta1.AdvancedCronJobSpec) { s.Template = v1beta1.CronJobTemplate{} }), []string{"spec.template: Required value"}},
		{"AC-3 two templates", func(obj *v1beta1.AdvancedCronJob) {
			job := obj.Spec.Template.JobTemplate
			broadcast(obj)
			obj.Spec.Template.JobTemplate = job
		}, []string{"spec.template: Forbidden"}},
		{"AC-4 a list of images", images, nil},
		{"AC-4 a list without images", func(obj *v1beta1.AdvancedCronJob) {
			images(obj)
			obj.Spec.Template.ImageListPullJobTemplate.Spec.Images = nil
		}, []string{"spec.template.imageListPullJobTemplate.spec.images: Required value"}},
		{"2.1 negative numbers", set(func(s *v1beta1.AdvancedCronJobSpec) {
			s.StartingDeadlineSeconds, s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = new(int64(-1)), new(int32(-1)), new(int32(-2))
		}), []string{
			"spec.startingDeadlineSeconds: Invalid value", "spec.successfulJobsHistoryLimit: Invalid value", "spec.failedJobsHistoryLimit: Invalid value",
		}},
		{"2.1 zero", set(func(s *v1beta1.AdvancedCronJobSpec) {
			s.StartingDeadlineSeconds, s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = new(int64(0)), new(int32(0)), new(int32(0))
		}), nil},
		{"2.1 another policy", set(func(s *v1beta1.AdvancedCronJobSpec) { s.ConcurrencyPolicy = "Queue" }), []string{"spec.concurrencyPolicy: Unsupported value"}},
		{"2.1 a BroadcastJob that never ends", func(obj *v1beta1.AdvancedCronJob) {
			broadcast(obj)
			obj.Spec.Template.BroadcastJobTemplate.Spec.Template.Spec.RestartPolicy = ""
		}, []string{"spec.template.broadcastJobTemplate.spec.template.spec.restartPolicy: Required value"}},
		{"2.1 a BroadcastJob with our labels", func(obj *v1beta1.AdvancedCronJob) {
			broadcast(obj)
			obj.Spec.Template.BroadcastJobTemplate.Spec.Template.Labels = map[string]string{"broadcastjob-name": "x"}
		}, []string{"spec.template.broadcastJobTemplate.spec.template.metadata.labels[broadcastjob-name]: Invalid value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := valid(c.edit)
			if diff := cmp.Diff(c.want, begins(validateCreate(obj, time.Now()))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := validateUpdate(obj, obj.DeepCopy(), time.Now()); len(got) > 0 {
				t.Errorf("what is stored keeps it from being updated: %v", got)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	// The stored template contains defaults, as OpenKruise stores templates.
	defaulted := func(obj *v1beta1.AdvancedCronJob) {
		broadcast(obj)
		spec := &obj.Spec.Template.BroadcastJobTemplate.Spec
		all := intstr.FromInt32(1<<31 - 1)
		spec.Parallelism, spec.CompletionPolicy.Type, spec.FailurePolicy.Type = &all, v1beta1.Always, v1beta1.FailurePolicyTypeFailFast
		pod := &spec.Template.Spec
		pod.DNSPolicy, pod.SchedulerName, pod.SecurityContext, pod.TerminationGracePeriodSeconds = "ClusterFirst", "default-scheduler", &corev1.PodSecurityContext{}, new(int64(30))
		c := &pod.Containers[0]
		c.ImagePullPolicy, c.TerminationMessagePath, c.TerminationMessagePolicy = "Always", "/dev/termination-log", "File"
	}
	for _, c := range []struct {
		name         string
		stored, next func(*v1beta1.AdvancedCronJob)
		want         []string
	}{
		{"AC-5 what may change", broadcast, func(obj *v1beta1.AdvancedCronJob) {
			broadcast(obj)
			obj.Spec.Schedule, obj.Spec.TimeZone, obj.Spec.ConcurrencyPolicy, obj.Spec.Paused = "@daily", new("UTC"), v1beta1.ForbidConcurrent, new(true)
			obj.Spec.StartingDeadlineSeconds, obj.Spec.SuccessfulJobsHistoryLimit, obj.Spec.FailedJobsHistoryLimit = new(int64(7)), new(int32(7)), new(int32(7))
		}, nil},
		{"AC-5 a Job", func(*v1beta1.AdvancedCronJob) {}, func(obj *v1beta1.AdvancedCronJob) {
			obj.Spec.Template.JobTemplate.Spec.BackoffLimit = new(int32(1))
		}, []string{"spec.template.jobTemplate: Forbidden"}},
		{"AC-5 labels of a BroadcastJob", broadcast, func(obj *v1beta1.AdvancedCronJob) {
			broadcast(obj)
			obj.Spec.Template.BroadcastJobTemplate.Labels = map[string]string{"a": "b"}
		}, []string{"spec.template.broadcastJobTemplate: Forbidden"}},
		{"AC-5 another kind", broadcast, func(*v1beta1.AdvancedCronJob) {}, []string{"spec.template.jobTemplate: Forbidden", "spec.template.broadcastJobTemplate: Forbidden"}},
		{"AC-5 images", images, func(obj *v1beta1.AdvancedCronJob) {
			images(obj)
			obj.Spec.Template.ImageListPullJobTemplate.Spec.Images = []string{"b"}
		}, []string{"spec.template.imageListPullJobTemplate: Forbidden"}},
		{"AC-5 an object of OpenKruise, as it was written", defaulted, broadcast, nil},
		{"AC-5 and the other way round", broadcast, defaulted, nil},
		{"a new problem", func(*v1beta1.AdvancedCronJob) {}, func(obj *v1beta1.AdvancedCronJob) {
			obj.Spec.FailedJobsHistoryLimit = new(int32(-1))
		}, []string{"spec.failedJobsHistoryLimit: Invalid value"}},
		{"a name that was possible once", func(obj *v1beta1.AdvancedCronJob) { obj.Name = strings.Repeat("a", 63) }, func(obj *v1beta1.AdvancedCronJob) {
			obj.Name = strings.Repeat("a", 63)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, begins(validateUpdate(valid(c.next), valid(c.stored), time.Now()))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
