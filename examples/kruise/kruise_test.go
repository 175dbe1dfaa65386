package kruise_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/lifecycle"
)

func ExampleInPlace() {
	updater, err := kruise.InPlace(apps.DefaultGates(), apps.ReservedPodLabels())
	if err != nil {
		fmt.Println(err)
		return
	}
	from := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}
	to := from.DeepCopy()
	to.Spec.Containers[0].Image = "app:v2"
	fmt.Println(updater.Plan(from, to).Possible())
	// Output: true
}

func barrier(key string) *corev1.Container {
	return &corev1.Container{Env: []corev1.EnvVar{{Name: "OTHER", Value: "1"}, {
		Name: apps.EnvContainerBarrier,
		ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "pod-barrier"}, Key: key,
		}},
	}}}
}

// TestLaunchOrder checks that labels, annotations and environment variables have OpenKruise's names. The tests of
// package launchorder check the order of containers.
func TestLaunchOrder(t *testing.T) {
	order, err := kruise.LaunchOrder()
	if err != nil {
		t.Fatal(err)
	}
	if priority, ok := order.Priority(barrier("p_-10")); priority != -10 || !ok {
		t.Errorf("U-18 priority %d, %v; want -10", priority, ok)
	}
	if _, ok := order.Priority(barrier("x")); ok {
		t.Error("U-18 another key counts as a priority")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Annotations: map[string]string{"apps.kruise.io/container-launch-priority": "Ordered"},
	}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
	if _, err := order.Inject(pod, ""); err != nil {
		t.Fatal(err)
	}
	want := []corev1.EnvVar{{Name: "KRUISE_CONTAINER_BARRIER", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "web-barrier"}, Key: "p_-1",
	}}}}
	if diff := cmp.Diff(want, pod.Spec.Containers[1].Env); diff != "" {
		t.Errorf("LP-3 barrier of the second container (-want +got):\n%s", diff)
	}
	if value := order.Completion(pod).Annotations["apps.kruise.io/container-launch-priority-completed"]; value == nil || *value != "true" {
		t.Errorf("LP-9 mark %v, want true", value)
	}
}

func TestHooks(t *testing.T) {
	if none := kruise.Hooks(nil); none != (lifecycle.Hooks{}) {
		t.Errorf("hooks of nobody: %+v", none)
	}
	hooks := kruise.Hooks(&pub.Lifecycle{PreDelete: &pub.LifecycleHook{
		LabelsHandler: map[string]string{"a": "b"}, FinalizersHandler: []string{"f"}, MarkPodNotReady: true,
	}})
	want := &lifecycle.Hook{Labels: map[string]string{"a": "b"}, Finalizers: []string{"f"}, MarkNotReady: true, Unstamped: true}
	if diff := cmp.Diff(want, hooks.PreDelete); diff != "" || hooks.InPlaceUpdate != nil {
		t.Errorf("preDelete (-want +got):\n%s", diff)
	}
	if none := kruise.Hooks(&pub.Lifecycle{PreDelete: &pub.LifecycleHook{MarkPodNotReady: true}}); none != (lifecycle.Hooks{}) {
		t.Errorf("hooks that hold nobody: %+v", none)
	}
}

func TestHolder(t *testing.T) {
	if got := kruise.Holder(lifecycle.PreDelete).Key; got != "preDeleteHook" {
		t.Errorf("L-11: key %q", got)
	}
	if got := kruise.Holder(lifecycle.InPlaceUpdate).Key; got != "preUpdateHook" {
		t.Errorf("L-11: key %q", got)
	}
}

// TestReservedKeys: admission refuses a Pod template with labels or annotations that only controllers may set. In a
// stored template, these labels and annotations have no effect.
func TestReservedKeys(t *testing.T) {
	updater, err := kruise.InPlace(apps.DefaultGates(), apps.ReservedPodLabels())
	if err != nil {
		t.Fatal(err)
	}
	from, to := &corev1.PodTemplateSpec{}, &corev1.PodTemplateSpec{}
	to.Labels = map[string]string{apps.LabelRevision: "mine", apps.LabelPodTemplateHash: "mine", apps.LabelInstanceID: "mine", apps.LabelLifecycleState: "Normal"}
	to.Annotations = map[string]string{apps.AnnotationLifecycleTimestamp: "now", apps.AnnotationInPlaceUpdateState: "{}"}
	if plan := updater.Plan(from, to); len(plan.Labels)+len(plan.Annotations) > 0 || !plan.Possible() {
		t.Errorf("changes %v and %v, blocking %v", plan.Labels, plan.Annotations, plan.Blocking)
	}
	if got := updater.ValidateTemplate(to); len(got) != 6 {
		t.Errorf("admission is told %v", got)
	}
}
