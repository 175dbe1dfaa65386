package inplaceupdate_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/revision"
)

// benchTemplate has three containers with env, ports and resources, about the size of a service with two sidecars.
func benchTemplate(tag string) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "team": "a"}}}
	for _, name := range []string{"app", "proxy", "log"} {
		c := corev1.Container{
			Name: name, Image: "registry.example/" + name + ":" + tag,
			Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
		}
		for i := range 5 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("E%d", i), Value: "value"})
		}
		t.Spec.Containers = append(t.Spec.Containers, c)
	}
	return t
}

func revisionOf(b testing.TB, tag string) *appsv1.ControllerRevision {
	data, err := revision.Encode(benchTemplate(tag))
	if err != nil {
		b.Fatal(err)
	}
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{UID: types.UID(tag)}, Data: runtime.RawExtension{Raw: data}}
}

func BenchmarkPlan(b *testing.B) {
	from, to := benchTemplate("v1"), benchTemplate("v2")
	updater := mustNew(inplaceupdate.Config{EnvFromMetadata: true})
	b.ReportAllocs()
	for b.Loop() {
		if plan := updater.Plan(from, to); !plan.Possible() {
			b.Fatal(plan.Blocking)
		}
	}
}

func BenchmarkPlanSamePair(b *testing.B) {
	planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(10, nil), nil)
	from, to := revisionOf(b, "v1"), revisionOf(b, "v2")
	b.ReportAllocs()
	for b.Loop() {
		if plan := planner.Plan(from, to); !plan.Possible() {
			b.Fatal(plan.Blocking)
		}
	}
}

func BenchmarkCompletionCheck(b *testing.B) { benchmarkCompletion(b, "") }

// BenchmarkCompletionCheckKnown checks a Pod whose state annotation records the container's earlier image.
func BenchmarkCompletionCheckKnown(b *testing.B) {
	const hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	benchmarkCompletion(b, `,"knownImages":{"app":[{"image":"registry.example/app:v1","imageID":"sha256:`+hex+`","containerID":"containerd://`+hex+`"}]}`)
}

func benchmarkCompletion(b *testing.B, known string) {
	updater := mustNew(inplaceupdate.Config{Keys: inplaceupdate.Keys{StateAnnotation: "s", GraceAnnotation: "g", Gate: "gate"}})
	pod := &corev1.Pod{Spec: benchTemplate("v2").Spec}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "gate", Status: corev1.ConditionTrue}}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "sha256:2"})
	}
	pod.Annotations = map[string]string{"s": `{"revision":"web-7d9f8c6b5d","updateTimestamp":"2026-07-01T10:00:00Z",` +
		`"lastContainerStatuses":{"app":{"imageID":"sha256:1"}},"updateImages":true,` +
		`"containerBatchesRecord":[{"timestamp":"2026-07-01T10:00:00Z","containers":["app"]}]` + known + "}"}
	now := time.Unix(1, 0)
	b.ReportAllocs()
	for b.Loop() {
		if step, err := updater.Next(pod, now); err != nil || !step.Complete {
			b.Fatal(step, err)
		}
	}
}

// BenchmarkStart begins an update of a Pod that was updated before.
func BenchmarkStart(b *testing.B) {
	updater := mustNew(inplaceupdate.Config{Keys: inplaceupdate.Keys{StateAnnotation: "s", GraceAnnotation: "g", Gate: "gate"}})
	from, to := benchTemplate("v2"), benchTemplate("v3")
	pod := newPod(from)
	pod.Annotations = map[string]string{"s": `{"revision":"web-1","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":{"app":{"imageID":"sha256:1"}},"updateImages":true}`}
	plan := updater.Plan(from, to)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := updater.Start(pod, plan, toward("2", 0), now); err != nil {
			b.Fatal(err)
		}
	}
}
