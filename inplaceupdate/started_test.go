package inplaceupdate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podstate"
)

// TestStartIsProbed: kubelets since Kubernetes 1.35 report a restarted container as started until the first run of
// its startup probe, because the old instance had started. A kubelet of Kubernetes 1.36 reported such a Pod as Ready
// 1 s after the restart.
func TestStartIsProbed(t *testing.T) {
	startup := func(seconds int32) func(*template) {
		return func(t *template) { t.Spec.Containers[0].StartupProbe = &corev1.Probe{PeriodSeconds: seconds} }
	}
	readiness := func(t *template) { t.Spec.Containers[0].ReadinessProbe = &corev1.Probe{} }
	status := func(edits ...func(*corev1.ContainerStatus)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			app := podstate.ContainerStatus(pod, "app")
			app.Started = ptr.To(true)
			app.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(after(2 * time.Second))}}
			for _, edit := range edits {
				edit(app)
			}
		}
	}
	unstarted := func(app *corev1.ContainerStatus) { app.Started = ptr.To(false) }
	ended := func(app *corev1.ContainerStatus) {
		app.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	}
	at := func(d time.Duration) func(*corev1.ContainerStatus) {
		return func(app *corev1.ContainerStatus) { app.State.Running.StartedAt = metav1.NewTime(after(d)) }
	}
	noGate := func(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }
	open := func(pod *corev1.Pod) { podstate.Condition(pod, gate).Status = corev1.ConditionTrue }
	for _, tc := range []struct {
		name  string
		from  *template
		edits []func(*corev1.Pod)
		now   time.Duration
		again time.Duration // 0 if the update is complete
	}{
		{"no startup probe", newTemplate(), nil, 3 * time.Second, 0},
		{"the kubelet may not have probed", newTemplate(startup(5)), nil, 3 * time.Second, 7 * time.Second},
		{"until the end", newTemplate(startup(5)), nil, 10*time.Second - time.Millisecond, time.Millisecond},
		{"the kubelet has probed", newTemplate(startup(5)), nil, 10 * time.Second, 0},
		{"a probe without a period", newTemplate(startup(0)), nil, 3 * time.Second, 12 * time.Second},
		{"the node's clock is ahead", newTemplate(startup(5)), []func(*corev1.Pod){status(at(time.Hour))}, 3 * time.Second, 8 * time.Second},
		{"reported as not started", newTemplate(startup(5)), []func(*corev1.Pod){status(unstarted)}, 3 * time.Second, 0},
		{"ended again", newTemplate(startup(5)), []func(*corev1.Pod){status(ended)}, 3 * time.Second, 0},
		{"a readiness probe tells", newTemplate(startup(5), readiness), nil, 3 * time.Second, 0},
		{"without a gate", newTemplate(startup(5)), []func(*corev1.Pod){noGate}, 3 * time.Second, 7 * time.Second},
		{"after the gate was opened, a crash is no update", newTemplate(startup(5)), []func(*corev1.Pod){open}, 3 * time.Second, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			updater, to := newUpdater(), tc.from.DeepCopy()
			to.Spec.Containers[0].Image = "app:v2"
			pod := newPod(tc.from)
			pod = write(t, pod, mustStart(t, updater, pod, tc.from, to, toward("2", 0), now))
			catchUp(pod)
			report(t, pod)
			for _, edit := range append([]func(*corev1.Pod){status()}, tc.edits...) {
				edit(pod)
			}
			step := mustNext(t, updater, pod, after(tc.now))
			var want []string
			if tc.again > 0 {
				want = []string{string(inplaceupdate.StartNotProbed)}
			}
			if diff := cmp.Diff(want, codes(step.Waiting)); diff != "" || step.Complete != (tc.again == 0) || step.RequeueAfter != tc.again {
				t.Errorf("complete %t, again after %v; want after %v; reasons (-want +got):\n%s", step.Complete, step.RequeueAfter, tc.again, diff)
			}
			if opens := len(step.Change.Conditions) > 0; opens && tc.again > 0 {
				t.Error("the gate is opened")
			}
		})
	}
}
