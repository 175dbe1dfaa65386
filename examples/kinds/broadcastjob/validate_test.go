package broadcastjob

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// valid returns a valid, defaulted job, after edits.
func valid(edits ...func(*v1beta1.BroadcastJob)) *v1beta1.BroadcastJob {
	obj := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Name: "upgrade", Namespace: "default"}}
	obj.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	obj.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	api.Default(obj)
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func TestValidate(t *testing.T) {
	set := func(edit func(*v1beta1.BroadcastJobSpec)) func(*v1beta1.BroadcastJob) {
		return func(obj *v1beta1.BroadcastJob) { edit(&obj.Spec) }
	}
	named := func(name string) func(*v1beta1.BroadcastJob) {
		return func(obj *v1beta1.BroadcastJob) { obj.Name = name }
	}
	parallelism := func(value intstr.IntOrString) func(*v1beta1.BroadcastJob) {
		return set(func(s *v1beta1.BroadcastJobSpec) { s.Parallelism = &value })
	}
	seconds, small := int64(-1), int32(-1)
	some, few := int64(5), int32(5)
	for _, c := range []struct {
		name string
		edit func(*v1beta1.BroadcastJob)
		want []string // paths, with the beginning of the message
	}{
		{"nothing", named("upgrade"), nil},
		{"1.1 a name with a dot", named("a.b"), []string{"metadata.name: Invalid value"}},
		{"1.1 63 characters", named(strings.Repeat("a", 63)), nil},
		{"1.1 64 characters", named(strings.Repeat("a", 64)), []string{"metadata.name: Invalid value", "metadata.name: Too long"}},
		{"BJ-2 no restartPolicy", set(func(s *v1beta1.BroadcastJobSpec) { s.Template.Spec.RestartPolicy = "" }), []string{"spec.template.spec.restartPolicy: Required value"}},
		{"BJ-2 restartPolicy Always", set(func(s *v1beta1.BroadcastJobSpec) { s.Template.Spec.RestartPolicy = "Always" }), []string{"spec.template.spec.restartPolicy: Unsupported value"}},
		{"1.1 restartPolicy OnFailure", set(func(s *v1beta1.BroadcastJobSpec) { s.Template.Spec.RestartPolicy = "OnFailure" }), nil},
		{"1.1 our labels", set(func(s *v1beta1.BroadcastJobSpec) {
			s.Template.Labels = map[string]string{"broadcastjob-name": "x", "broadcastjob-controller-uid": "y", "app": "z"}
		}), []string{"spec.template.metadata.labels[broadcastjob-name]: Invalid value", "spec.template.metadata.labels[broadcastjob-controller-uid]: Invalid value"}},
		{"1.1 parallelism junk", parallelism(intstr.FromString("many")), []string{"spec.parallelism: Invalid value"}},
		{"1.1 parallelism without a sign", parallelism(intstr.FromString("5")), []string{"spec.parallelism: Invalid value"}},
		{"1.1 parallelism below 0", parallelism(intstr.FromInt32(-1)), []string{"spec.parallelism: Invalid value"}},
		{"1.1 parallelism 0", parallelism(intstr.FromInt32(0)), nil},
		{"1.1 parallelism in percent", parallelism(intstr.FromString("12.5%")), nil},
		{"1.1 completion of another type", set(func(s *v1beta1.BroadcastJobSpec) { s.CompletionPolicy.Type = "Sometimes" }), []string{"spec.completionPolicy.type: Unsupported value"}},
		{"1.1 failure of another type", set(func(s *v1beta1.BroadcastJobSpec) { s.FailurePolicy.Type = "Retry" }), []string{"spec.failurePolicy.type: Unsupported value"}},
		{"1.1 Never with a deadline and a TTL", set(func(s *v1beta1.BroadcastJobSpec) {
			s.CompletionPolicy = v1beta1.CompletionPolicy{Type: v1beta1.Never, ActiveDeadlineSeconds: &some, TTLSecondsAfterFinished: &few}
		}), []string{"spec.completionPolicy.activeDeadlineSeconds: Forbidden", "spec.completionPolicy.ttlSecondsAfterFinished: Forbidden"}},
		{"1.1 Always with both", set(func(s *v1beta1.BroadcastJobSpec) {
			s.CompletionPolicy = v1beta1.CompletionPolicy{Type: v1beta1.Always, ActiveDeadlineSeconds: &some, TTLSecondsAfterFinished: &few}
		}), nil},
		{"negative numbers", set(func(s *v1beta1.BroadcastJobSpec) {
			s.CompletionPolicy.ActiveDeadlineSeconds, s.CompletionPolicy.TTLSecondsAfterFinished, s.FailurePolicy.RestartLimit = &seconds, &small, -1
		}), []string{
			"spec.completionPolicy.activeDeadlineSeconds: Invalid value", "spec.completionPolicy.ttlSecondsAfterFinished: Invalid value", "spec.failurePolicy.restartLimit: Invalid value",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := valid(c.edit)
			if diff := cmp.Diff(c.want, begins(validateCreate(obj))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := validateUpdate(obj, obj.DeepCopy()); len(got) > 0 {
				t.Errorf("what is stored keeps it from being updated: %v", got)
			}
			if _, problems, _ := resolve(valid()); len(problems) > 0 {
				t.Error("a valid job is unusable")
			}
		})
	}
	if got := begins(validateUpdate(valid(parallelism(intstr.FromInt32(-1))), valid())); len(got) != 1 {
		t.Errorf("an update with a new problem: %v", got)
	}
}

// begins returns the errors without values.
func begins(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, err.Field+": "+err.Type.String())
	}
	return out
}
