package podunavailablebudget

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

var start = time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func serving(edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: "app:v1", ImageID: "app@sha256:1", Ready: true}}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func TestServes(t *testing.T) {
	s, err := NewServing(nil)
	if err != nil {
		t.Fatal(err)
	}
	updating := `{"revision":"web-2","updateTimestamp":"2026-01-05T09:59:58Z","lastContainerStatuses":{"app":{"imageID":"app@sha256:1"}},"updateImages":true}`
	for _, tc := range []struct {
		name string
		edit func(*corev1.Pod)
		want bool
	}{
		{"PUB-10 runs and is ready", nil, true},
		{"PUB-10 is not ready", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		{"PUB-10 is pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		{"PUB-10 is labelled as unavailable", func(p *corev1.Pod) { p.Labels[apps.LabelUnavailablePrefix+"maintenance"] = "" }, false},
		{"is being deleted", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(start)) }, false},
		{"PUB-11 another digest runs", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app" + digest }, false},
		{"PUB-11 another digest runs, and the kubelet has not seen the new one", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Generation, p.Status.ObservedGeneration = "app"+digest, 2, 1
		}, false},
		{"PUB-11 its Node knows it by the digest of its index", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Generation, p.Status.ObservedGeneration = "app"+digest, 2, 2
		}, true},
		{"PUB-11 an update in place to what a Node knows by another digest is under way", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Generation, p.Status.ObservedGeneration = "app"+digest, 2, 2
			p.Annotations[apps.AnnotationInPlaceUpdateState] = updating
		}, false},
		{"PUB-11 the digest runs", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Status.ContainerStatuses[0].ImageID = "app"+digest, "docker.io/app"+digest
		}, true},
		{"PUB-11 digests alone decide", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Status.ContainerStatuses[0].ImageID = "app"+digest, "docker.io/app"+digest
			p.Annotations[apps.AnnotationInPlaceUpdateState] = updating
		}, true},
		{"PUB-11 an update in place is under way", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Annotations[apps.AnnotationInPlaceUpdateState] = "app:v2", updating
		}, false},
		{"PUB-11 an update in place has ended", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Annotations[apps.AnnotationInPlaceUpdateState] = "app:v2", updating
			p.Status.ContainerStatuses[0].Image, p.Status.ContainerStatuses[0].ImageID = "app:v2", "app@sha256:2"
		}, true},
		{"PUB-11 in its grace period", func(p *corev1.Pod) {
			p.Annotations[apps.AnnotationInPlaceUpdateGrace] = `{"revision":"web-2","containerImages":{"app":"app:v2"},"graceSeconds":30}`
		}, false},
		{"PUB-11 a SidecarSet upgrades it", func(p *corev1.Pod) {
			p.Annotations[apps.AnnotationSidecarSetInjected] = "mesh"
			p.Annotations[apps.AnnotationSidecarSetInPlaceState] = `{"mesh":` + updating + `}`
			p.Spec.Containers[0].Image = "app:v2"
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := serving(tc.edit)
			before := pod.DeepCopy()
			if got, _ := s.Serves(pod, start); got != tc.want {
				t.Errorf("serves: %t, want %t", got, tc.want)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the Pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		name      string
		list      []v1beta1.Operation
		vertical  bool
		operation disruption.Operation
		want      bool
	}{
		{"3.1 the default has DELETE", nil, false, disruption.Delete, true},
		{"3.1 the default has UPDATE", nil, false, disruption.Update, true},
		{"3.1 the default has EVICT", nil, false, disruption.Evict, true},
		{"PUB-24 updates stand for resizes", nil, false, disruption.Resize, true},
		{"PUB-24 with the gate, resizes are named", nil, true, disruption.Resize, false},
		{"PUB-24 with the gate, they are", []v1beta1.Operation{"RESIZE"}, true, disruption.Resize, true},
		{"PUB-24 RESIZE is not UPDATE", []v1beta1.Operation{"RESIZE"}, true, disruption.Update, false},
		{"PUB-25 evictions alone", []v1beta1.Operation{"EVICT"}, false, disruption.Delete, false},
		{"PUB-25 evictions alone", []v1beta1.Operation{"EVICT"}, false, disruption.Evict, true},
		{"PUB-25 evictions alone: no resize", []v1beta1.Operation{"EVICT"}, false, disruption.Resize, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := covers(tc.list, tc.operation, map[apps.Gate]bool{apps.GateInPlacePodVerticalScaling: tc.vertical}); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}

func TestIsOn(t *testing.T) {
	gates := apps.DefaultGates()
	for operation, want := range map[disruption.Operation]bool{disruption.Delete: true, disruption.Evict: true, disruption.Update: false, disruption.Resize: false} {
		if got := isOn(gates, operation); got != want {
			t.Errorf("PUB-16 %s by default: %t, want %t", operation, got, want)
		}
	}
}

// TestLedger: a status that is converted to a disruption.Ledger and back is unchanged.
func TestLedger(t *testing.T) {
	at := metav1.NewTime(start)
	budget := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: v1beta1.PodUnavailableBudgetStatus{
		ObservedGeneration: 2, TotalReplicas: 5, DesiredAvailable: 4, CurrentAvailable: 3, UnavailableAllowed: 1,
		DisruptedPods: map[string]metav1.Time{"a": at}, UnavailablePods: map[string]metav1.Time{"b": at},
	}}
	want := disruption.Ledger{
		ObservedGeneration: 2, Expected: 5, Need: 4, Current: 3, Allowed: 1, Leaving: map[string]metav1.Time{"a": at}, Changing: map[string]metav1.Time{"b": at},
	}
	if diff := cmp.Diff(want, ledgerOf(budget)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	stored := &v1beta1.PodUnavailableBudget{ObjectMeta: budget.ObjectMeta, Status: v1beta1.PodUnavailableBudgetStatus{ObservedGeneration: 2}}
	store(stored, want)
	if diff := cmp.Diff(budget, stored); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}
