package podstate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podstate"
)

func readyPod(since time.Time) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since),
		}},
	}}
}

func ExampleAvailable() {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	pod := readyPod(noon)
	ok, wait := podstate.Available(pod, 30*time.Second, noon.Add(10*time.Second))
	fmt.Println(ok, wait)
	// Output: false 20s
}

func TestIsActive(t *testing.T) {
	now := metav1.Now()
	for _, tc := range []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{"C-3 pending", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, true},
		{"C-3 running", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, true},
		{"C-3 unknown phase", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodUnknown}}, true},
		{"C-3 succeeded", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, false},
		{"C-3 failed", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, false},
		{"C-3 terminating", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := podstate.IsActive(&tc.pod); got != tc.want {
				t.Errorf("IsActive = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	t0 := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	notRunning := readyPod(t0)
	notRunning.Status.Phase = corev1.PodPending
	unready := readyPod(t0)
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	type answer struct {
		OK   bool
		Wait time.Duration
	}
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		minReady time.Duration
		now      time.Time
		want     answer
	}{
		{"ready, nothing to wait for", readyPod(t0), 0, t0, answer{OK: true}},
		{"ready long enough", readyPod(t0), time.Minute, t0.Add(time.Minute), answer{OK: true}},
		{"ready, too short", readyPod(t0), time.Minute, t0.Add(15 * time.Second), answer{Wait: 45 * time.Second}},
		{"ready in the future of our clock", readyPod(t0), time.Minute, t0.Add(-time.Second), answer{Wait: 61 * time.Second}},
		{"ready without a time", readyPod(time.Time{}), time.Minute, t0, answer{Wait: time.Minute}},
		{"not running", notRunning, 0, t0, answer{}},
		{"not ready", unready, time.Minute, t0, answer{}},
		{"no conditions", &corev1.Pod{}, 0, t0, answer{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ok, wait := podstate.Available(tc.pod, tc.minReady, tc.now)
			if diff := cmp.Diff(tc.want, answer{ok, wait}); diff != "" {
				t.Errorf("Available (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIsReported(t *testing.T) {
	scheduled := corev1.Pod{Spec: corev1.PodSpec{NodeName: "a"}, Status: corev1.PodStatus{
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
	}}
	setUp := *scheduled.DeepCopy()
	setUp.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}}
	for _, tc := range []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{"nobody has seen it", corev1.Pod{}, false},
		{"the scheduler alone has written", scheduled, false},
		{"the kubelet sets it up", setUp, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := podstate.IsReported(&tc.pod); got != tc.want {
				t.Errorf("IsReported = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestGates(t *testing.T) {
	const gate = "example.com/Gate"
	pod := &corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}}}}
	if !podstate.HasGate(pod, gate) || podstate.HasGate(pod, "other") {
		t.Error("HasGate does not follow spec.readinessGates")
	}
	if !podstate.GateOpen(pod, gate) {
		t.Error("C-49: an absent condition does not hold the Pod back")
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse}}
	if podstate.GateOpen(pod, gate) || podstate.IsTrue(pod, gate) {
		t.Error("C-49: a False condition does")
	}
	pod.Status.Conditions[0].Status = corev1.ConditionTrue
	if !podstate.GateOpen(pod, gate) || !podstate.IsTrue(pod, gate) {
		t.Error("a True condition does not hold the Pod back")
	}
}

func TestContainers(t *testing.T) {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{
				{Name: "setup"},
				{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			},
			Containers: []corev1.Container{{Name: "app"}},
		},
		Status: corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", RestartCount: 9}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "app", RestartCount: 3}, {Name: "b", RestartCount: 1}},
		},
	}
	for name, want := range map[string]bool{"app": true, "proxy": true, "setup": false, "none": false} {
		if got := podstate.Container(pod, name) != nil; got != want {
			t.Errorf("Container(%q) found = %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]bool{"app": true, "proxy": true, "none": false} {
		if got := podstate.ContainerStatus(pod, name) != nil; got != want {
			t.Errorf("ContainerStatus(%q) found = %v, want %v", name, got, want)
		}
	}
	if got := podstate.MaxRestarts(pod); got != 3 {
		t.Errorf("MaxRestarts = %d, want 3", got)
	}
}

func TestReadySince(t *testing.T) {
	t0 := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	if got := podstate.ReadySince(readyPod(t0)); !got.Time.Equal(t0) {
		t.Errorf("ReadySince = %v, want %v", got, t0)
	}
	if got := podstate.ReadySince(&corev1.Pod{}); !got.IsZero() {
		t.Errorf("ReadySince of an unready Pod = %v, want zero", got)
	}
}

func TestFromTemplate(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Web", Name: "web", UID: "u1", Controller: ptr.To(true)}
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ignored", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, Finalizers: []string{"f"},
		},
		Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "First"}}},
	}
	before := template.DeepCopy()
	got := podstate.FromTemplate(template, "default", owner, "First", "Second")
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, Finalizers: []string{"f"},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "First"}, {ConditionType: "Second"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Pod (-want +got):\n%s", diff)
	}
	got.Labels["x"], got.Spec.ReadinessGates[0].ConditionType = "y", "Changed"
	if diff := cmp.Diff(before, template); diff != "" {
		t.Errorf("the template has changed (-before +after):\n%s", diff)
	}
	if podstate.FromTemplate(&corev1.PodTemplateSpec{}, "default", owner).Labels == nil {
		t.Error("a Pod without labels has no map for the caller's")
	}
}

// TestIsRestarted: the restart rules of a container take precedence over its restart policy, and the container's
// policy takes precedence over the Pod's policy.
func TestIsRestarted(t *testing.T) {
	rule := func(operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{
			Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes},
		}
	}
	in, notIn := corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, tc := range []struct {
		pod   corev1.RestartPolicy
		own   corev1.ContainerRestartPolicy
		rules []corev1.ContainerRestartRule
		code  int32
		want  bool
	}{
		{pod: "Always", want: true},
		{pod: "", want: true},
		{pod: "OnFailure", want: false},
		{pod: "OnFailure", code: 1, want: true},
		{pod: "Never", code: 1, want: false},
		{pod: "Never", own: "Always", want: true},
		{pod: "Never", own: "OnFailure", want: false},
		{pod: "Never", own: "OnFailure", code: 1, want: true},
		{pod: "OnFailure", own: "Never", code: 1, want: false},
		{pod: "Never", own: "Never", rules: []corev1.ContainerRestartRule{rule(in, 42)}, code: 42, want: true},
		{pod: "Never", own: "Never", rules: []corev1.ContainerRestartRule{rule(in, 42)}, code: 1, want: false},
		{pod: "Never", own: "Never", rules: []corev1.ContainerRestartRule{rule(in, 42), rule(notIn, 1)}, code: 2, want: true},
		{pod: "Never", own: "Never", rules: []corev1.ContainerRestartRule{rule("New", 42), {}}, code: 42, want: false},
		{pod: "Always", own: "Never", rules: []corev1.ContainerRestartRule{rule(in, 42)}, want: false},
	} {
		pod, container := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tc.pod}}, &corev1.Container{RestartPolicyRules: tc.rules}
		if tc.own != "" {
			container.RestartPolicy = &tc.own
		}
		if got := podstate.IsRestarted(pod, container, tc.code); got != tc.want {
			t.Errorf("Pod %q, container %q with %d rules, exit code %d: %v, want %v", tc.pod, tc.own, len(tc.rules), tc.code, got, tc.want)
		}
	}
}
