package podstate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

func TestWhyNotReady(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
		}
	}
	waits := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	unready := condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: [app]")
	for name, tc := range map[string]struct {
		edits []func(*corev1.Pod)
		want  string
	}{
		"nothing is known": {},
		"no Node": {
			[]func(*corev1.Pod){condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available"), unready}, "Unschedulable: 0/3 nodes are available",
		},
		"an image": {[]func(*corev1.Pod){unready, func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{waits("init", "ImagePullBackOff", "not found")}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{waits("app", "PodInitializing", "")}
		}}, "container init ImagePullBackOff: not found"},
		"a crash": {[]func(*corev1.Pod){unready, func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "log"}, waits("app", "CrashLoopBackOff", "")}
		}}, "container app CrashLoopBackOff"},
		"a probe": {[]func(*corev1.Pod){unready}, "ContainersNotReady: containers with unready status: [app]"},
		"a gate": {[]func(*corev1.Pod){condition(corev1.ContainersReady, corev1.ConditionTrue, "", ""), condition(corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady", "x"), func(pod *corev1.Pod) {
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "Traffic"}}
		}}, "readiness gate Traffic is not open"},
		"it is ready": {[]func(*corev1.Pod){condition(corev1.PodReady, corev1.ConditionTrue, "", "")}, ""},
		"finalizers": {[]func(*corev1.Pod){unready, func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b", "c/d"}
		}}, "finalizers: a/b, c/d"},
		"it is terminating": {[]func(*corev1.Pod){unready, func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			for _, edit := range tc.edits {
				edit(pod)
			}
			if got := podstate.WhyNotReady(pod); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
