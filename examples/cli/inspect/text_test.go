package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/inspect"
)

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestText(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name, batch string, isReady bool) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute)), Labels: map[string]string{
			"pod-template-hash": "new", "rollouts.kruise.io/rollout-batch-id": batch,
		}}}
		p.Spec.Containers = []corev1.Container{{Name: "app"}}
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{{Ready: isReady, RestartCount: 2}}
		return p
	}
	old := pod("old", "", true)
	old.Labels["pod-template-hash"] = "before"
	ending := pod("b-ending", "2", true)
	ending.DeletionTimestamp = &metav1.Time{Time: now}
	view := inspect.View{
		Rollout: object(t, `{metadata: {name: web, namespace: a}, spec: {strategy: {canary: {steps: [{replicas: 1, traffic: 5%}, {replicas: 50%}], trafficRoutings: [{service: web, ingress: {classType: nginx, name: web}}]}}},
status: {phase: Progressing, message: at work, canaryStatus: {currentStepIndex: 2, currentStepState: StepPaused, podTemplateHash: new, stableRevision: s, canaryRevision: c}}}`),
		Workload: object(t, `{metadata: {name: web}, spec: {replicas: 4, template: {spec: {containers: [{image: "a:2"}]}}}, status: {updatedReplicas: 2, replicas: 4, readyReplicas: 3, availableReplicas: 3}}`),
		Pods:     []corev1.Pod{pod("a-unready", "2", false), old, ending, pod("first", "1", true)}, Now: now,
	}
	want := `Name:              web
Namespace:         a
Status:            Progressing
Message:           at work
Strategy:          Canary
Step:              2/2
Steps:
  1: replicas 1 traffic 5%
  2: replicas 50% <- StepPaused
Traffic Routing:   service web, ingress nginx web
Images:            a:2
Current Revision:  s
Update Revision:   c
Replicas:
  Desired:         4
  Updated:         2
  Current:         4
  Ready:           3
  Available:       3
NAME       READY  BATCH ID  REVISION  AGE  RESTARTS  STATUS
b-ending   1/1    2         new       60s  2         Terminating
a-unready  0/1    2         new       60s  2         Running
`
	if diff := cmp.Diff(want, view.Text()); diff != "" {
		t.Errorf("KC-33 (-want +got):\n%s", diff)
	}
	view.All, view.Icons = true, true
	if text := view.Text(); !strings.Contains(text, "⚠ Progressing") || !strings.Contains(text, "first") || strings.Contains(text, "\x1b") || strings.Contains(text, "old ") {
		t.Errorf("KC-33 --all shows\n%s", text)
	}
	if view.Colours = true; !strings.Contains(view.Text(), "\x1b[33m⚠\x1b[0m") {
		t.Error("KC-33 no colour on a terminal")
	}
}

func TestTextOfLittle(t *testing.T) {
	view := inspect.View{Rollout: object(t, "{apiVersion: rollouts.kruise.io/v1alpha1, metadata: {name: web}}"), Workload: object(t, "{metadata: {name: web}}")}
	if text := view.Text(); !strings.Contains(text, "Strategy:          Canary") {
		t.Errorf("5.8 a Rollout without status shows\n%s", text)
	}
}
